"""Look at the built site in headless Chromium: what the start page weighs, and what axe finds on every page.

    npm install --prefix /tmp/axe axe-core
    hatch run test:python website/audit.py --axe /tmp/axe/node_modules/axe-core/axe.min.js [--widths 390] [--pages ...]

Serves site/ compressed, as static hosts do. Two browsers share the pages; each loads its own one after another in a
frame, which takes every width in both colour schemes, and axe runs inside: all its rules in the light scheme, those on
colours in the dark one, since nothing else differs. What a run of all pages found is kept in
website/results/audit.json. Exit status 1 where it finds anything or the start page is too heavy.
"""

from __future__ import annotations

import argparse
import gzip
import json
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from datetime import date
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "website" / "results" / "audit.json"
MOST_BYTES = 300_000
"""Of the start page with all that it loads, as sent."""

BROWSERS = 2

HARNESS = """<!doctype html><title>audit</title><script>
const WIDTHS = SIZES, found = [], looked = [];
const RULES = {default: null, slate: {type: "rule", values: ["color-contrast", "link-in-text-block"]}};
let axe = "";
async function look(url) {
  localStorage.clear();
  const frame = document.createElement("iframe");
  frame.width = WIDTHS[0]; frame.height = 900; frame.src = url;
  document.body.append(frame);
  await new Promise(done => frame.onload = done);
  const inside = frame.contentWindow, page = frame.contentDocument;
  const style = page.createElement("style");
  style.textContent = "*{transition:none!important;animation:none!important}";
  page.head.append(style);
  const script = page.createElement("script");
  script.src = "/axe.min.js";
  page.head.append(script);
  await new Promise(done => script.onload = done);
  axe = inside.axe.version;
  for (const width of WIDTHS) for (const [scheme, rules] of Object.entries(RULES)) {
    frame.width = width;
    page.body.setAttribute("data-md-color-scheme", scheme);
    await new Promise(done => setTimeout(done, 150));
    const options = {resultTypes: ["violations"], ...(rules && {runOnly: rules})};
    const where = `${scheme}, ${width} px`, result = await inside.axe.run(page, options);
    for (const one of result.violations)
      found.push({url, where, id: one.id, impact: one.impact, help: one.help,
                  nodes: one.nodes.slice(0, 3).map(node => node.target.join(" ") + " | " + node.html.slice(0, 160)),
                  count: one.nodes.length});
    const wide = page.documentElement.scrollWidth - inside.innerWidth;
    const help = `the page is ${wide} px too wide`;
    if (wide > 1) found.push({url, where, id: "sideways", help, nodes: [], count: 1});
  }
  looked.push(url);
  frame.remove();
}
addEventListener("load", async () => {
  for (;;) {
    const url = await (await fetch("/next", {method: "POST"})).json();
    if (!url) break;
    try { await look(url); }
    catch (error) { found.push({url, where: "", id: "error", help: String(error), nodes: [], count: 1}); }
  }
  await fetch("/done", {method: "POST", body: JSON.stringify({axe, looked, found})});
});
</script><body></body>"""


class Handler(SimpleHTTPRequestHandler):
    """Files of the site, compressed where that helps; counts what it sends."""

    sent: ClassVar[dict[str, int]] = {}
    pages: ClassVar[dict[str, bytes]] = {}
    waiting: ClassVar[queue.SimpleQueue[str]] = queue.SimpleQueue()
    reports: ClassVar[queue.SimpleQueue[dict[str, Any]]] = queue.SimpleQueue()

    def do_GET(self) -> None:
        """Send a file."""
        path = self.path.split("?")[0]
        content = self.pages.get(path)
        file = Path(self.directory) / path.lstrip("/")
        if content is None and not file.is_file():
            self.send_error(404)
            return
        body = file.read_bytes() if content is None else content
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(path))
        if file.suffix not in (".png", ".jpg"):
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.sent[path] = len(body)

    def do_POST(self) -> None:
        """Give a harness its next page, or take its findings."""
        body = b"{}"
        if self.path == "/next":
            try:
                body = json.dumps(self.waiting.get_nowait()).encode()
            except queue.Empty:
                body = b"null"
        else:
            self.reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        """Say nothing."""


def chromium(url: str, *arguments: str) -> list[str]:
    """The command that opens a page without a window."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("Chromium is not installed")
    return [browser, "--headless", "--no-sandbox", "--disable-gpu", *arguments, url]


def weight(address: str, profile: str) -> dict[str, int]:
    """Bytes of everything that the start page loads, by path."""
    Handler.sent.clear()
    command = chromium(
        f"{address}/index.html", f"--user-data-dir={profile}", "--virtual-time-budget=8000", "--dump-dom"
    )
    subprocess.run(command, capture_output=True, timeout=120, check=False)
    return dict(Handler.sent)


def look(address: str, pages: list[str], profile: str) -> list[dict[str, Any]]:
    """What the browsers say of all pages.

    Raises:
        SystemExit: one does not come to an end.
    """
    for page in pages:
        Handler.waiting.put(f"/{page}")
    browsers = [
        subprocess.Popen(
            chromium(f"{address}/harness.html", f"--user-data-dir={profile}/axe{index}", "--window-size=1400,1000"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for index in range(min(BROWSERS, len(pages)))
    ]
    try:
        return [Handler.reports.get(timeout=60 + 60 * len(pages)) for _ in browsers]
    except queue.Empty:
        raise SystemExit("a browser did not come to an end") from None
    finally:
        for browser in browsers:
            browser.kill()
            browser.wait()


def main() -> None:
    """Weigh, look, print, keep."""
    reader = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    reader.add_argument("--pages", nargs="+", help="paths below site/; all but pages of code by default")
    reader.add_argument("--axe", type=Path, required=True, help="axe.min.js")
    reader.add_argument("--widths", type=int, nargs="+", default=[390, 768, 1280], help="of the window, in pixels")
    arguments = reader.parse_args()
    site = ROOT / "site"
    every = [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html"))]
    pages = arguments.pages or [page for page in every if not page.startswith("code/")]
    if missing := [page for page in pages if page not in every]:
        raise SystemExit(f"not in site/: {', '.join(missing)}; build it first: hatch run docs:build")
    Handler.pages = {
        "/axe.min.js": arguments.axe.read_bytes(),
        "/harness.html": HARNESS.replace("SIZES", json.dumps(arguments.widths)).encode(),
    }
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    start = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:  # the browser writes while it ends
        sent = weight(address, f"{profile}/weight")
        # Each page would index the whole site for its search again.
        Handler.pages["/search/search_index.json"] = b'{"config":{"lang":["en"],"separator":"[\\s]+"},"docs":[]}'
        parts = look(address, pages, profile)
    looked = sorted(page for part in parts for page in part["looked"])
    findings = [finding for part in parts for finding in part["found"]]
    for path, size in sorted(sent.items(), key=lambda pair: -pair[1]):
        print(f"{size:8} {path}")
    print(f"start page: {sum(sent.values()):,} bytes; at most {MOST_BYTES:,}")
    for finding in findings:
        print(f"{finding['url']} ({finding['where']}): {finding['id']}, {finding['help']}, {finding['count']} times")
        for node in finding["nodes"]:
            print(f"    {node}")
    print(f"{len(looked)} pages, both schemes, {arguments.widths} px: {len(findings)} findings")
    if not arguments.pages:
        values = {
            "axe": next(part["axe"] for part in parts),
            "browser": subprocess.run(chromium("--version"), capture_output=True, text=True, check=True).stdout.strip(),
            "widths": arguments.widths,
            "schemes": ["light", "dark"],
            "pages looked at": len(looked),
            "findings": len(findings),
            "bytes of the start page": sum(sent.values()),
            "at most": MOST_BYTES,
            "seconds": round(time.monotonic() - start),
            "date": date.today().isoformat(),
            "found": findings,
            "start page": [{"file": path, "bytes": size} for path, size in sent.items()],
        }
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    raise SystemExit(bool(findings) or len(looked) != len(pages) or sum(sent.values()) > MOST_BYTES)


if __name__ == "__main__":
    main()
