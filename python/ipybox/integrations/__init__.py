# SPDX-License-Identifier: Apache-2.0
"""Adapters: ipybox inside agent frameworks. Each module imports its framework lazily."""
