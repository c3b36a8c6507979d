# SPDX-License-Identifier: Apache-2.0
"""Tool execution, as a kernel sees it."""
