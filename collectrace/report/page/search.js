// The search, over findings, ranks, groups, calls, and the text of the page.

const entries = [
  ...D.findings.map((f, n) => ({ kind: "finding", text: f.headline, go: `#finding-${n + 1}` })),
  ...D.states.flatMap((s) => (s.detail || s.last ? [{ kind: named(s.ranks), text: [s.told, s.detail, s.last].filter(Boolean).join("; "), go: "#ranks" }] : [])),
  ...D.streams.map((s, n) => ({ kind: "group", text: s.name, go: `#call-${n}-${Math.max(1, s.marks[0]?.seq ?? s.last)}` })),
  ...D.forms.map((f, n) => ({ kind: "call", text: [f.what, f.who, f.site, f.via].filter(Boolean).join(" \u00b7 "), form: n })),
  ...[...document.querySelectorAll("main :is(.listing li, .said dd, .remark, .grid tbody tr, .settings tr)")].map((node) => (
    { kind: node.closest(".listing") ? "source" : node.closest("dl")?.querySelector("dt").textContent ?? "report", text: textOf(node), node })),
];

function textOf(node) {
  const parts = node.matches("li") ? node.querySelectorAll(".no, .line > code, .notes > li") : node.cells ?? [node];
  return [...parts].map((one) => one.textContent.trim()).join(" ");
}

function search() {
  const field = $("find"), list = $("found");
  let hits = [], at = -1;
  function close() { list.hidden = true; field.setAttribute("aria-expanded", "false"); field.removeAttribute("aria-activedescendant"); at = -1; }
  function mark(n) {
    at = n;
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
    if (at >= 0) { field.setAttribute("aria-activedescendant", `hit-${at}`); list.children[at].scrollIntoView({ block: "nearest" }); }
  }
  function go(hit) {
    close();
    let target = hit.go;
    if (hit.form !== undefined) {
      const found = map?.first(hit.form);
      if (!found) return;
      target = `#call-${found[0]}-${found[1]}`;
    }
    field.blur();
    if (hit.node) {
      hit.node.setAttribute("tabindex", "-1");
      hit.node.classList.add("hit");
      hit.node.focus();
      return;
    }
    if (location.hash === target) follow();
    else location.hash = target;
  }
  field.addEventListener("input", () => {
    const wanted = field.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    if (!wanted.length) { close(); return; }
    hits = entries.filter((entry) => wanted.every((word) => `${entry.kind} ${entry.text}`.toLowerCase().includes(word))).slice(0, 40);
    const rank = field.value.match(/^\s*(?:rank\s*)?(\d+)\s*$/i);
    if (rank && stateOf.has(Number(rank[1]))) {
      const state = stateOf.get(Number(rank[1]));
      hits.unshift({ kind: `rank ${Number(rank[1])}`, text: [state.told, state.detail, state.last].filter(Boolean).join("; "), go: `#rank-${Number(rank[1])}` });
    }
    list.replaceChildren(...(hits.length
      ? hits.map((hit, n) => {
        const item = el("li", { id: `hit-${n}`, role: "option", "aria-selected": "false" }, el("span", { class: "kind" }, hit.kind), ` ${hit.text}`);
        item.addEventListener("pointerdown", (event) => { event.preventDefault(); go(hit); });
        return item;
      })
      : [el("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "nothing found")]));
    list.hidden = false;
    field.setAttribute("aria-expanded", "true");
    mark(hits.length ? 0 : -1);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && hits.length) mark((at + 1) % hits.length);
    else if (event.key === "ArrowUp" && hits.length) mark((at + hits.length - 1) % hits.length);
    else if (event.key === "Enter" && hits[at] && !list.hidden) go(hits[at]);
    else if (event.key === "Escape") { close(); field.blur(); } else return;
    event.preventDefault();
  });
  // A click on a hit comes after it; so may the next search.
  field.addEventListener("blur", () => setTimeout(() => { if (document.activeElement !== field) close(); }, 100));
}
