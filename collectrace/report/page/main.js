// Links, keys, and what is drawn when the page opens.

function follow() {
  const call = location.hash.match(/^#call-(\d+)-(\d+)$/), rank = location.hash.match(/^#rank-(\d+)$/);
  if (call && map && D.streams[Number(call[1])]) {
    map.around(Number(call[1]), Math.min(Number(call[2]), D.streams[Number(call[1])].last));
    $("map").scrollIntoView({ block: "nearest" });
    map.scroll.focus({ preventScroll: true });
  } else if (rank && map) {
    map.toRank(Number(rank[1]));
    $("map").scrollIntoView({ block: "nearest" });
    map.scroll.focus({ preventScroll: true });
  } else if (location.hash.startsWith("#finding-")) {
    $(location.hash.slice(1))?.focus();
    const finding = D.findings[Number(location.hash.slice(9)) - 1];
    if (map && finding && finding.stream !== null) map.around(finding.stream, finding.seq);
  }
}

function next(step) {
  const all = [...document.querySelectorAll("article[id^=finding-]")];
  if (!all.length) return;
  const here = all.findIndex((article) => `#${article.id}` === location.hash);
  location.hash = all[(here < 0 ? (step > 0 ? 0 : all.length - 1) : here + step + all.length) % all.length].id;
}

const help = $("help");
const keys = {
  "/": () => $("find").focus(), n: () => next(1), p: () => next(-1), "?": () => help.showModal(),
  m: () => { $("map")?.scrollIntoView({ block: "nearest" }); map?.scroll.focus({ preventScroll: true }); },
  "+": () => map?.zoom(0.5), "=": () => map?.zoom(0.5), "-": () => map?.zoom(2), 0: () => map?.whole(),
  f: () => map?.start(), e: () => map?.toggleEach(),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (event.target.matches?.("input, textarea, select")) return;
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
$("keys").addEventListener("click", () => help.showModal());

readColours();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); map?.ask(); });
document.querySelectorAll(".rows").forEach(rowsOnDemand);
if ($("graph")) drawWaits($("graph"));
if ($("flame")) drawFlame($("flame"));
if ($("charts")) drawCharts($("charts"));
search();
if (map) { map.resize(); map.start(); }
if (location.hash) follow();
addEventListener("hashchange", follow);
document.documentElement.dataset.ready = "yes";
