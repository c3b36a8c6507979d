# SPDX-License-Identifier: Apache-2.0
"""The Python side of a kernel: IPython driven over the kernel wire (docs/internals/kernel-wire.md).

In the forkserver: `server` (the loop), `packets` (its control socket), `interpreter` (import path),
`warmup` (IPython made and warmed up, preloading), `children` (leftovers).

In a kernel: `process` (what the forked child becomes), `kernel` (start, and the loop that takes frames),
`cells` (running one), `shell`, `display`, `history`, `tracebacks`, `commands`, `inspection` (IPython's parts
as we need them), `output` with `streams`, `flusher` and `mime` (all that leaves the kernel, in order), `wire`
(frames), `interrupts`, `forks`, `plots`, `randomness` with `imports`, `blas`. `linux` holds the system calls
that Python lacks.
"""
