// Starts the interpreter with every package of the course as soon as this module is loaded. The kernel, which asks for it
// with loadPyodide, gets the one that has started.
import { loadPyodide as load, version } from "./pyodide.mjs";

export { version };

const HERE = new URL(".", import.meta.url).href;
const SITE_PACKAGES = "/lib/python3.14/site-packages/";

// The current folder moves to the end of the path: it is the drive of the notebooks, where each look-up is a request that
// Python waits for. For the same reason, the modules are imported before the kernel mounts it.
const IMPORTS = `
import importlib, sys
importlib.invalidate_caches()
sys.path.remove("")
sys.path.append("")
import piplite.piplite, pyodide_kernel, ipywidgets, kstreamnb
`;

const started = start();

export async function loadPyodide({ stdout, stderr }) {
  const python = await started;
  python.setStdout({ batched: stdout });
  python.setStderr({ batched: stderr });
  return python;
}

async function start() {
  const [python, files] = await Promise.all([load({ indexURL: HERE }), packages()]);
  const folders = new Set(files.map(({ name }) => SITE_PACKAGES + name.slice(0, name.lastIndexOf("/") + 1)));
  folders.forEach((folder) => python.FS.mkdirTree(folder));
  for (const { name, content } of files) python.FS.writeFile(SITE_PACKAGES + name, content, { canOwn: true });
  python.runPython(IMPORTS);
  return python;
}

// One file with a line of names and sizes, then the contents: unpacked here, in a tenth of the time that Python takes.
async function packages() {
  const { body } = await fetch(HERE + "ARCHIVE");
  const bytes = new Uint8Array(await new Response(body.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
  let end = bytes.indexOf(10);
  const index = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end++)));
  return index.map(([name, size]) => ({ name, content: bytes.subarray(end, (end += size)) }));
}
