// Calls side by side: adds rows to the table that the page was written with.

const MORE = 10;

function rowsOnDemand(box) {
  const finding = D.findings[Number(box.dataset.finding)];
  if (finding.stream === null) return;
  const stream = D.streams[finding.stream];
  const chosen = box.dataset.columns.split(",").map((n) => runs(finding.columns[Number(n)]));
  const bands = chosen.map((list) => stream.bands.findIndex((band) => list.length && holds(band.runs, list[0][0])));
  const body = box.querySelector("tbody");
  const shown = [...body.querySelectorAll("tr[data-seq]")].map((row) => Number(row.dataset.seq));
  if (!shown.length || bands.every((b) => b < 0)) return;
  let low = Math.min(...shown), high = Math.max(...shown);

  function row(seq) {
    const forms = bands.map((b) => (b < 0 ? 0 : form(finding.stream, b, seq)));
    const told = forms.map((f) => D.forms[f - 1]);
    return el("tr", { "data-seq": seq, class: "added" },
      el("td"), el("td", { class: "seq" }, el("a", { href: `#call-${finding.stream}-${seq}` }, String(seq))),
      ...told.map((f, n) => el("td", {}, f ? `${f.what} (${f.short || f.site || f.who})` : forms[n] < 0 ? "no call" : "not read")));
  }
  const before = el("button", { type: "button" }, "rows before");
  const after = el("button", { type: "button" }, "rows after");
  before.addEventListener("click", () => {
    const from = Math.max(1, low - MORE);
    body.prepend(...Array.from({ length: low - from }, (_, i) => row(from + i)));
    low = from;
    settle();
  });
  after.addEventListener("click", () => {
    const to = Math.min(stream.last, high + MORE);
    const end = [...body.querySelectorAll("tr[data-seq]")].pop();
    end.after(...Array.from({ length: to - high }, (_, i) => row(high + 1 + i)));
    high = to;
    settle();
  });
  function settle() {
    before.disabled = low <= 1;
    after.disabled = high >= stream.last;
  }
  settle();
  box.querySelector("table").before(el("div", { class: "buttons" }, before, after));
}
