# SPDX-License-Identifier: Apache-2.0
"""Kernels over Jupyter's REST and WebSocket interface.

`KernelGateway` serves them, `KernelClient` uses them.
"""
