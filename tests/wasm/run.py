"""Runs a program for WASI in wasmtime. usage: run.py PROGRAM.wasm STDIN STDOUT. Needs the package wasmtime."""

import sys

import wasmtime

engine = wasmtime.Engine()
linker = wasmtime.Linker(engine)
linker.define_wasi()
store = wasmtime.Store(engine)
config = wasmtime.WasiConfig()
config.stdin_file, config.stdout_file = sys.argv[2:4]
config.inherit_stderr()
store.set_wasi(config)
program = linker.instantiate(store, wasmtime.Module.from_file(engine, sys.argv[1]))
try:
    program.exports(store)["_start"](store)
except wasmtime.ExitTrap as exit_status:
    sys.exit(exit_status.code)
