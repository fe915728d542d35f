// Runs Graphviz, compiled to WebAssembly, in a browser: a function of the module's bytes that returns dot => SVG.
// The host functions are WASI preview 1 as used by a program that opens no file and needs no clock and no randomness.
(bytes) => {
  const BAD_DESCRIPTOR = 8, NO_ENTRY = 44, NOT_SEEKABLE = 70, CHARACTER_DEVICE = 2;
  let memory, messages = "";
  const view = () => new DataView(memory.buffer);
  const noEntries = (count, size) => {
    view().setUint32(count, 0, true);
    view().setUint32(size, 0, true);
    return 0;
  };
  const host = {
    args_get: () => 0,
    args_sizes_get: noEntries,
    environ_get: () => 0,
    environ_sizes_get: noEntries,
    clock_time_get: (id, precision, out) => { view().setBigUint64(out, 0n, true); return 0; },
    random_get: (start, length) => { new Uint8Array(memory.buffer, start, length).fill(0); return 0; },
    fd_close: () => 0,
    fd_fdstat_get: (descriptor, out) => {
      if (descriptor > 2) return BAD_DESCRIPTOR;
      new Uint8Array(memory.buffer, out, 24).fill(0);
      view().setUint8(out, CHARACTER_DEVICE);
      view().setBigUint64(out + 8, 0xffffffffn, true);  // all rights
      return 0;
    },
    fd_fdstat_set_flags: () => 0,
    fd_filestat_get: () => BAD_DESCRIPTOR,
    fd_prestat_get: () => BAD_DESCRIPTOR,
    fd_prestat_dir_name: () => BAD_DESCRIPTOR,
    fd_read: (descriptor, buffers, count, out) => { view().setUint32(out, 0, true); return 0; },
    fd_seek: () => NOT_SEEKABLE,
    fd_write: (descriptor, buffers, count, out) => {
      let total = 0;
      for (let number = 0; number < count; number++) {
        const start = view().getUint32(buffers + 8 * number, true);
        const length = view().getUint32(buffers + 8 * number + 4, true);
        messages += new TextDecoder().decode(new Uint8Array(memory.buffer, start, length));
        total += length;
      }
      view().setUint32(out, total, true);
      return 0;
    },
    path_filestat_get: () => NO_ENTRY,
    path_open: () => NO_ENTRY,
    proc_exit: (code) => { throw new Error(`exit code ${code}: ${messages}`); },
  };
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes), { wasi_snapshot_preview1: host });
  memory = exports.memory;
  const allocate = (text) => {
    const data = new TextEncoder().encode(text + "\0");
    const start = exports.malloc(data.length);
    new Uint8Array(memory.buffer, start, data.length).set(data);
    return start;
  };
  const textAt = (start) => {
    const rest = new Uint8Array(memory.buffer, start);
    return new TextDecoder().decode(rest.slice(0, rest.indexOf(0)));
  };
  return (dot) => {
    messages = "";
    const passed = [allocate(dot), allocate("svg"), allocate("dot"), exports.malloc(4)];
    try {
      const start = exports.graphviz_render(...passed);
      if (start === 0) throw new Error(textAt(exports.graphviz_last_error()) || messages || "no drawing");
      const length = view().getUint32(passed[3], true);
      const drawing = new TextDecoder().decode(new Uint8Array(memory.buffer, start, length));
      exports.graphviz_free(start);
      return drawing;
    } finally {
      passed.forEach((start) => exports.graphviz_free(start));
    }
  };
}
