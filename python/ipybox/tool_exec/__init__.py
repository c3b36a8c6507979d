# SPDX-License-Identifier: Apache-2.0
"""Runs MCP tools: the tool server, its clients, approvals."""
