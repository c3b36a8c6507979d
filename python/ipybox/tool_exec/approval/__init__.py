# SPDX-License-Identifier: Apache-2.0
"""Who decides on tool calls, and how they are asked."""
