# SPDX-License-Identifier: Apache-2.0
"""The Python side of a kernel: IPython driven over the kernel wire (docs/internals/kernel-wire.md).

In the forkserver:

- `forkserver`: its loop, which forks kernels. `control_socket`: its packets.
- `interpreter`: the import path. `warmup`: creates IPython's shell, warms it up, and preloads
  modules.
- `sandbox`: forks a kernel into a sandbox. `children`: kernels, and the processes they leave
  behind.

In a kernel:

- `process`: turns the forked child into a kernel. `kernel`: starts it, and runs the loop that
  receives frames.
- `cells`: runs a cell. `interrupts`: SIGINT.
- `shell`, `display`, `history`, `inspection`, `tracebacks`: IPython's parts, adapted.
- `commands`, `installs`, `shell_rules`: shell commands, `pip install`, and the rules for both.
- `output`, `flusher`, `mime`, `wire`: all output, in order, as text and frames.
- `user_processes`, `plots`, `randomness`, `blas`, `imports`: adjustments for forks and for
  libraries.

In both: `rehearsal`, cells that run before there is a client; `linux`, the system calls that
Python lacks.
"""
