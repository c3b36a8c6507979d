# SPDX-License-Identifier: Apache-2.0
"""Runs MCP tools from inside a kernel."""
