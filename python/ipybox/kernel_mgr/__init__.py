# SPDX-License-Identifier: Apache-2.0
"""Kernels by Jupyter's REST and WebSocket interface: `KernelGateway` serves them, `KernelClient`
uses them."""
