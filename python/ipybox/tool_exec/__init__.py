# SPDX-License-Identifier: Apache-2.0
"""Running MCP tools: the tool server, its clients, approvals."""
