// Runs compile.py with the interpreter of the browser, so that it makes the byte code that this interpreter reads.
import { readFileSync } from "node:fs";

const [interpreter, packages, library, notebook] = process.argv.slice(2);
const { loadPyodide } = await import(`${interpreter}/pyodide.mjs`);
const python = await loadPyodide({ indexURL: `${interpreter}/`, env: { PYTHONDONTWRITEBYTECODE: "1", PYTHONNODEBUGRANGES: "1" } });
python.mountNodeFS("/lib/python3.14/site-packages", packages);
python.mountNodeFS("/library", library);
python.FS.writeFile("/notebook.ipynb", readFileSync(notebook));
try {
  python.runPython(readFileSync(new URL("compile.py", import.meta.url), "utf8"), { filename: "compile.py" });
} catch (error) {
  console.error(error.message); // Node would print the interpreter's source, too
  process.exitCode = 1;
}
