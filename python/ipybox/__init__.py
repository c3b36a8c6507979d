# SPDX-License-Identifier: Apache-2.0
"""ipybox: run Python in stateful IPython kernels and call MCP tools through generated APIs."""

__version__ = "1.0.0.dev0"
