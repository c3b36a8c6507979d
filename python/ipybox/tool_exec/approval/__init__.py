# SPDX-License-Identifier: Apache-2.0
"""Requests for approval of tool calls, their clients and their channel."""
