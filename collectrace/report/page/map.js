// The map: ranks by calls, drawn on demand.

const NARROW_GUTTER = 84;
const LABELS = 0.4; // share of the map that labels of ranks may take
const HEAD = 30;
const LEAST = 3; // calls that a window shows at least
const ROOM = 9; // a window of a shorter stream has room for so many calls at most
const WIDEST = 150; // pixels of a call when that room is computed
const map = $("canvas") ? makeMap() : null;

function makeMap() {
  const scroll = $("scroll"), canvas = $("canvas"), spacer = $("spacer"), strip = $("strip");
  const paper = canvas.getContext("2d"), stripPaper = strip.getContext("2d");
  const state = { focus: lead < 0 ? 0 : D.findings[lead].stream, x0: 0, x1: 1, each: false, seq: 0, row: -1 };
  let rows = [], width = 0, height = 0, gutter = NARROW_GUTTER, queued = false, hover = null, total = 0;

  const stream = () => D.streams[state.focus];

  /** The bands of a stream: what the others are compared with, the suspects, the others. */
  const shown = (one) => [...one.bands.keys()].sort((a, b) =>
    (b === 0) - (a === 0) || one.bands[b].suspect - one.bands[a].suspect || a - b);

  function layout() {
    rows = [];
    fitLabels();
    let y = 0;
    const add = (row, h) => { rows.push({ ...row, y, h }); y += h; };
    const order = [state.focus, ...D.streams.keys()].filter((s, i) => i === 0 || s !== state.focus);
    for (const s of order) {
      const one = D.streams[s], focused = s === state.focus;
      add({ kind: "head", s, focused }, focused ? HEAD : 24);
      if (focused && state.each) {
        const ranks = one.bands.flatMap((band, b) => each(band.runs).map((rank) => [rank, b]));
        ranks.sort((a, b) => a[0] - b[0]);
        for (const [rank, b] of ranks) add({ kind: "band", s, b, rank, focused }, 15);
      } else {
        const room = (height - HEAD - 24 * Math.min(3, order.length - 1) - 8) / one.bands.length;
        const h = focused ? Math.max(24, Math.min(52, room)) : 12;
        const most = focused ? one.bands.length : Math.min(4, one.bands.length);
        for (const b of shown(one).slice(0, most)) add({ kind: "band", s, b, focused }, h);
      }
      if (focused) y += 8;
    }
    total = y;
    spacer.style.height = `${Math.max(0, total - height)}px`;
  }

  const measured = (told, weight = "") => {
    paper.font = `${weight} 11px system-ui, sans-serif`;
    return paper.measureText(told).width;
  };

  /** Labels of ranks get the room that they need. */
  function fitLabels() {
    let need = measured("message");
    for (const band of stream().bands.slice(0, 100)) need = Math.max(need, measured(named(band.ranks), "600"), measured(band.doing));
    gutter = Math.round(width < 520 ? NARROW_GUTTER : Math.max(NARROW_GUTTER, Math.min(need + 18, width * LABELS)));
    canvas.dataset.gutter = gutter;
  }

  function resize() {
    // A few rows need little height; many get the height that is left, and scroll.
    height = most();
    layout();
    height = Math.max(90, Math.min(height, total));
    scroll.style.height = `${height + 2}px`;
    width = scroll.clientWidth;
    const scale = window.devicePixelRatio || 1;
    for (const [c, p, h] of [[canvas, paper, height], [strip, stripPaper, 14]]) {
      c.width = Math.round(width * scale);
      c.height = Math.round(h * scale);
      c.style.width = `${width}px`;
      c.style.height = `${h}px`;
      p.setTransform(scale, 0, 0, scale, 0, 0);
    }
    layout();
    ask();
  }

  function ask() {
    if (queued) return;
    queued = true;
    requestAnimationFrame(() => { queued = false; draw(); });
  }

  const most = () => {
    const wide = $("map").closest(".first").classList.contains("enlarged");
    return Math.max(200, Math.min(wide ? 2000 : 400, innerHeight - (wide ? 240 : 390)));
  };
  const room = () => Math.max(LEAST, Math.min(ROOM, Math.floor(inner() / WIDEST)));
  const inner = () => width - gutter - 8;
  const perCall = () => inner() / (state.x1 - state.x0);
  const xOf = (seq) => gutter + (seq - 1 - state.x0) * perCall();

  function clamp() {
    const last = stream().last;
    const span = Math.max(LEAST, Math.min(state.x1 - state.x0, Math.max(room(), last + 1)));
    const middle = (state.x0 + state.x1) / 2;
    state.x0 = Math.max(0, Math.min(middle - span / 2, last + 1 - span));
    state.x1 = state.x0 + span;
  }

  function show(from, to) {
    state.x0 = from;
    state.x1 = to;
    clamp();
    ask();
  }

  function zoom(factor, at) {
    const middle = at ?? (state.seq ? state.seq - 0.5 : (state.x0 + state.x1) / 2);
    const kept = Math.max(state.x0, Math.min(middle, state.x1));
    show(kept - (kept - state.x0) * factor, kept + (state.x1 - kept) * factor);
  }

  function text(told, x, y, most, colour, weight = "") {
    if (most < 8) return;
    paper.fillStyle = colour;
    paper.font = `${weight} 11px system-ui, sans-serif`;
    // Measuring costs more than drawing, and most frames show the same words.
    const key = `${weight}|${Math.floor(most / 2)}|${told}`;
    let cut = fitted.get(key);
    if (cut === undefined) {
      if (fitted.size > 4000) fitted.clear();
      fitted.set(key, (cut = fit(told, most)));
    }
    if (cut) paper.fillText(cut, x, y);
  }

  const fitted = new Map();

  /** As much of a text as fits; nothing if too little of it fits. */
  function fit(told, most) {
    if (paper.measureText(told).width <= most) return told;
    let low = 0, high = told.length;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if (paper.measureText(`${told.slice(0, mid)}\u2026`).width <= most) low = mid;
      else high = mid - 1;
    }
    return low < 3 ? "" : `${told.slice(0, low)}\u2026`;
  }

  function draw() {
    if (!width) return;
    const top = scroll.scrollTop;
    paper.fillStyle = ink.panel;
    paper.fillRect(0, 0, width, height);
    paper.textBaseline = "middle";
    for (const row of rows) {
      const y = row.y - top;
      if (y + row.h < 0 || y > height) continue;
      if (row.kind === "head" && row.focused) continue;
      if (row.kind === "head") drawHead(row, y);
      else drawBand(row, y);
    }
    // The numbers of the calls stay in sight while the rows below them scroll.
    const bottom = rows.reduce((end, row) => (row.focused ? Math.max(end, row.y + row.h) : end), 0) - top;
    const head = Math.min(0, bottom - HEAD);
    paper.fillStyle = ink.panel;
    paper.fillRect(0, head, width, HEAD);
    drawHead(rows[0], head);
    drawMarks(top, head, bottom);
    drawStrip();
    $("map-where").textContent = where();
  }

  function where() {
    const from = Math.floor(state.x0) + 1, to = Math.min(stream().last, Math.ceil(state.x1));
    return `${stream().name}, ${stream().message ? "" : "calls "}${from}\u2013${to} of ${stream().last.toLocaleString("en")}`;
  }

  function drawHead(row, y) {
    const one = D.streams[row.s];
    const alike = one.alike ? `, and ${one.alike} groups alike` : "";
    const parted = one.marks.length ? "" : one.agreed ? `, ${one.agreed.toLocaleString("en")} agree` : "";
    paper.fillStyle = ink.line;
    paper.fillRect(0, y, width, 1);
    if (!row.focused) {
      text(`${one.name}${one.device && one.device !== "cpu" ? ` on ${one.device}` : ""}${alike}: ${one.last.toLocaleString("en")} call${one.last === 1 ? "" : "s"}${parted}`, 8, y + 13, width - 16, ink.quiet);
      return;
    }
    const per = perCall();
    const raw = 64 / per;
    const power = 10 ** Math.floor(Math.log10(Math.max(1, raw)));
    const step = Math.max(1, [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw) ?? 10 * power);
    text(`${one.message ? "message" : "call"}${alike}`, 8, y + HEAD / 2 + 3, gutter - 12, ink.quiet);
    paper.textAlign = "center";
    const first = Math.ceil((state.x0 + 1) / step) * step;
    const marked = new Set(one.marks.map((mark) => mark.seq));
    for (let seq = first || step; seq <= Math.min(one.last, state.x1 + 1); seq += step) {
      const x = xOf(seq) + per / 2;
      if (x < gutter || x > width - 4) continue;
      if (!marked.has(seq)) text(seq.toLocaleString("en"), x, y + HEAD / 2 + 3, 70, ink.quiet);
    }
    paper.textAlign = "left";
  }

  function drawBand(row, y) {
    const one = D.streams[row.s], band = one.bands[row.b];
    const x0 = row.focused ? state.x0 : 0, x1 = row.focused ? state.x1 : one.last;
    const per = inner() / (x1 - x0);
    const list = row.rank === undefined ? band.runs : [[row.rank, row.rank]];
    const suspect = row.rank === undefined ? band.suspect : holds(suspects, row.rank);
    const label = row.rank === undefined ? named(band.ranks) : `rank ${row.rank}`;
    const two = row.h >= 30;
    if (row.focused || row.h >= 12)
      text(label, 8, y + (two ? row.h / 2 - 7 : row.h / 2), gutter - 14, suspect ? ink.suspect : row.focused ? ink.text : ink.quiet, suspect ? "600" : "");
    if (two) text(doing(list), 8, y + row.h / 2 + 8, gutter - 14, ink.quiet);
    const pad = row.h >= 24 ? 3 : 1;
    const h = row.h - 2 * pad;
    paper.save();
    paper.beginPath();
    paper.rect(gutter, y, inner() + 4, row.h);
    paper.clip();
    if (per >= 4) drawCells(row, band, x0, x1, per, y + pad, h);
    else drawShares(row, band, x0, x1, per, y + pad, h);
    const end = gutter + (band.last - x0) * per;
    if (row.focused && end < width && end > gutter) {
      paper.fillStyle = suspect ? ink.suspect : ink.text;
      paper.fillRect(end, y + 1, 2, row.h - 2);
      const short = band.last < one.last || two;
      // What the ranks did is written under their label, if it fits.
      const told = band.last.toLocaleString("en") + (two ? "" : `, ${doing(list)}`);
      if (row.h >= 15 && short) text(told, end + 6, y + row.h / 2, width - end - 12, suspect ? ink.suspect : ink.quiet);
    }
    paper.restore();
  }

  function drawCells(row, band, x0, x1, per, y, h) {
    const one = D.streams[row.s];
    const codes = calls(row.s, row.b), main = row.b ? calls(row.s, 0) : codes;
    const gap = per >= 8 ? 1 : 0;
    // A rank that died may not have recorded what the others know to be complete.
    const done = Math.max(...one.bands.map((other) => other.done || 0));
    for (let i = Math.max(0, Math.floor(x0)); i < Math.min(band.last, Math.ceil(x1)); i++) {
      const f = D.forms[codes[i] - 1];
      const x = gutter + (i - x0) * per;
      // Issued, and not known to be complete.
      const pending = row.focused && per >= 8 && (done ? i + 1 > done : i + 1 === band.last && band.waits);
      paper.fillStyle = f ? ink.roles[f.f] : ink.line;
      paper.fillRect(x, y, per - gap, h);
      if (pending) {
        paper.fillStyle = ink.panel;
        paper.fillRect(x + 3, y + 3, per - gap - 6, h - 6);
      }
      if (!one.message && codes[i] !== main[i] && codes[i] && main[i] && row.focused) {
        paper.fillStyle = ink.text;
        paper.fillRect(x, y + h - 3, per - gap, 3);
      }
      if (f && per >= 40 && h >= 18) {
        const colour = pending ? ink.text : "#111";
        const lines = h >= 42 ? told(f) : h >= 30 ? [f.op, f.short || f.who] : [f.op];
        lines.forEach((line, n) => text(line, x + 5, y + h / 2 + (n - (lines.length - 1) / 2) * 13, per - 7, colour));
      }
    }
  }

  /** A call on the two or three lines of a cell, which is narrow. */
  function told(f) {
    const who = f.short || f.who;
    const at = who.match(/^(.*):(\d+)$/);
    if (at) return [f.op, at[1], `line ${at[2]}`];
    const [first, ...rest] = who.split(" ");
    return rest.length ? [f.op, first, rest.join(" ")] : [f.op, first];
  }

  const pictures = new Map();

  /** A picture of the band, for calls that are narrower than a pixel. It is made once per view. */
  function drawShares(row, band, x0, x1, per, y, h) {
    const key = [row.s, row.b, row.focused, x0, x1, width, h, ink.panel].join();
    let picture = pictures.get(key);
    if (!picture) {
      if (pictures.size > 400) pictures.clear();
      picture = document.createElement("canvas");
      picture.width = Math.ceil(inner());
      picture.height = Math.round(h * (window.devicePixelRatio || 1));
      pictures.set(key, picture);
      const paint = picture.getContext("2d");
      paint.scale(1, picture.height / h);
      shares(paint, row, band, x0, per, h);
    }
    paper.drawImage(picture, gutter, y, picture.width, h);
  }

  /** For each stretch of a band: the roles' shares, stacked, and whether it equals the first band. */
  function shares(paint, row, band, x0, per, h) {
    const codes = calls(row.s, row.b);
    const main = row.b && row.focused && !D.streams[row.s].message ? calls(row.s, 0) : codes;
    const column = 2, families = D.families.length;
    const counts = new Uint32Array(families + 1);
    for (let x = 0; x < inner(); x += column) {
      const from = Math.floor(x0 + x / per), to = Math.min(band.last, Math.floor(x0 + (x + column) / per));
      if (from >= band.last) break;
      const n = Math.max(1, to - from), step = Math.max(1, Math.floor(n / 61));
      counts.fill(0);
      let sum = 0, differs = false;
      for (let i = from; i < from + n; i += step) {
        differs ||= codes[i] !== main[i] && codes[i] && main[i];
        const f = D.forms[codes[i] - 1];
        counts[f ? f.f : families]++;
        sum++;
      }
      let at = 0;
      for (let k = 0; k <= families; k++) {
        if (!counts[k]) continue;
        const part = (h * counts[k]) / sum;
        paint.fillStyle = k < families ? ink.roles[k] : ink.line;
        paint.fillRect(x, at, column, part);
        at += part;
      }
      if (differs) {
        paint.fillStyle = ink.text;
        paint.fillRect(x, h - 3, column, 3);
      }
    }
  }

  function drawMarks(top, head, bottom) {
    const per = perCall();
    const begin = head + HEAD;
    paper.save();
    paper.beginPath();
    paper.rect(gutter - 1, 0, width - gutter, height);
    paper.clip();
    for (const mark of stream().marks) {
      const x = xOf(mark.seq), w = Math.max(2, per);
      if (x + w < gutter || x > width) continue;
      paper.strokeStyle = paper.fillStyle = mark.follows ? ink.quiet : ink.suspect;
      paper.lineWidth = 2;
      if (mark.follows) paper.setLineDash([4, 3]);
      paper.strokeRect(x - 1, begin, w, bottom - begin);
      paper.setLineDash([]);
      paper.textAlign = "center";
      text(`${mark.seq.toLocaleString("en")}`, x + w / 2, head + HEAD / 2 + 3, 80, mark.follows ? ink.quiet : ink.suspect, "600");
      paper.textAlign = "left";
    }
    for (const [seq, row, colour] of [[hover?.seq, hover?.row, ink.quiet], [state.seq, state.row, ink.other]]) {
      if (!seq || (row < 0 && stream().marks.some((mark) => mark.seq === seq))) continue;
      const at = rows[row];
      paper.strokeStyle = colour;
      paper.lineWidth = 2;
      const x = xOf(seq), w = Math.max(3, per);
      if (at && at.kind === "band" && at.focused) paper.strokeRect(x, at.y - top + 1, w, at.h - 2);
      else paper.strokeRect(x, begin, w, bottom - begin);
    }
    paper.restore();
  }

  function drawStrip() {
    const one = stream();
    stripPaper.fillStyle = ink.panel;
    stripPaper.fillRect(0, 0, width, 14);
    stripPaper.fillStyle = ink.band;
    stripPaper.fillRect(gutter, 5, inner(), 4);
    const per = inner() / (one.last + 1);
    stripPaper.fillStyle = ink.other;
    stripPaper.fillRect(gutter + state.x0 * per, 3, Math.max(4, (state.x1 - state.x0) * per), 8);
    for (const mark of one.marks) {
      stripPaper.fillStyle = mark.follows ? ink.quiet : ink.suspect;
      stripPaper.fillRect(gutter + (mark.seq - 1) * per, 0, 3, 14);
    }
  }

  // -- what is pointed at --

  function at(event) {
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top + scroll.scrollTop;
    const row = rows.findIndex((one) => one.y <= y && y < one.y + one.h);
    const seq = Math.floor(state.x0 + (x - gutter) / perCall()) + 1;
    return { row, seq: x < gutter || seq > stream().last ? 0 : Math.max(1, seq) };
  }

  function tell(seq, row, live) {
    const box = $("detail");
    box.setAttribute("aria-live", live ? "polite" : "off");
    const one = stream();
    if (!seq) { box.replaceChildren(el("p", { class: "quiet" }, "Point at a call, or use the arrow keys.")); return; }
    const by = new Map();
    one.bands.forEach((band, b) => {
      const f = form(state.focus, b, seq);
      if (!by.has(f)) by.set(f, []);
      by.get(f).push(band.runs);
    });
    const chosen = rows[row];
    const mine = chosen && chosen.kind === "band" ? form(state.focus, chosen.b, seq) : null;
    const order = [...by.keys()].sort((a, b) => (b === mine) - (a === mine));
    box.replaceChildren(
      el("p", {}, el("a", { href: `#call-${state.focus}-${seq}` }, `${one.message ? "message" : "call"} ${seq.toLocaleString("en")}`), `${one.message ? ` of the ${one.name}` : ` of ${one.name}`}`),
      el("ul", {}, ...order.slice(0, 6).map((f) => {
        const list = by.get(f).flat();
        const told = named(list.map(([a, b]) => (a === b ? `${a}` : `${a}-${b}`)).join(","));
        const what = D.forms[f - 1];
        const swatch = el("i", { class: what ? `role-${what.f}` : "role-none" });
        if (f < 0) return el("li", {}, swatch, el("b", {}, told), ` no call; ${doing(list)}`);
        if (!what) return el("li", {}, swatch, el("b", {}, told), " not read");
        return el("li", {}, swatch, el("b", {}, told), " ", el("code", {}, what.what), ` ${what.who}`,
          what.site ? el("span", { class: "site" }, " ", el("code", {}, what.site)) : null,
          what.via ? el("span", { class: "quiet" }, ` via ${what.via}`) : null);
      })),
    );
  }

  function select(seq, row, { reveal = true } = {}) {
    state.seq = Math.max(1, Math.min(seq, stream().last));
    if (row !== undefined) state.row = row;
    if (rows[state.row]?.kind !== "band" || !rows[state.row].focused) state.row = rows.findIndex((one) => one.kind === "band");
    const i = state.seq - 1;
    if (reveal && (i < state.x0 || i + 1 > state.x1)) {
      const span = state.x1 - state.x0;
      show(i + 0.5 - span / 2, i + 0.5 + span / 2);
    }
    const at = rows[state.row];
    if (reveal && at) {
      if (at.y < scroll.scrollTop + HEAD) scroll.scrollTop = Math.max(0, at.y - HEAD);
      else if (at.y + at.h > scroll.scrollTop + height) scroll.scrollTop = at.y + at.h - height;
    }
    tell(state.seq, state.row, true);
    ask();
  }

  function focus(s) {
    if (s === state.focus) return;
    state.focus = s;
    state.seq = 0;
    resize();
    scroll.scrollTop = 0;
    whole();
  }

  function whole() { show(0, Math.max(room(), stream().last + 1)); }

  /** The window that shows a call and the calls before it. */
  function around(s, seq) {
    focus(s);
    const n = Math.max(LEAST, Math.min(48, Math.round(inner() / 74)));
    const before = Math.round(n * 0.62);
    show(seq - 1 - before, seq - 1 - before + n);
    state.seq = seq;
    state.row = -1;
    tell(seq, -1, true);
  }

  function start() {
    if (lead >= 0) around(D.findings[lead].stream, D.findings[lead].seq);
    else { whole(); tell(0, -1, false); }
  }

  let drag = null;
  scroll.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && event.pointerType !== "touch") drag = { x: event.clientX, x0: state.x0, x1: state.x1, moved: false };
  });
  window.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const by = (drag.x - event.clientX) / perCall();
    if (Math.abs(drag.x - event.clientX) > 4) drag.moved = true;
    if (drag.moved) {
      const span = drag.x1 - drag.x0;
      const from = Math.max(0, Math.min(drag.x0 + by, stream().last + 1 - span));
      show(from, from + span);
    }
  });
  window.addEventListener("pointerup", () => setTimeout(() => { drag = null; }));
  scroll.addEventListener("click", (event) => {
    if (drag?.moved) return;
    const { row, seq } = at(event);
    if (rows[row] && rows[row].s !== state.focus) focus(rows[row].s);
    else if (seq) select(seq, row, { reveal: false });
  });
  scroll.addEventListener("dblclick", (event) => { const { seq } = at(event); if (seq) zoom(0.4, seq - 0.5); });
  scroll.addEventListener("pointermove", (event) => {
    if (drag?.moved || event.pointerType === "touch") return;
    const { row, seq } = at(event);
    const found = seq && rows[row]?.kind === "band" && rows[row].focused ? { row, seq } : null;
    if (found?.seq === hover?.seq && found?.row === hover?.row) return;
    hover = found;
    if (found) tell(found.seq, found.row, false);
    else tell(state.seq, state.row, false);
    ask();
  });
  scroll.addEventListener("pointerleave", () => { hover = null; tell(state.seq, state.row, false); ask(); });
  scroll.addEventListener("wheel", (event) => {
    const box = canvas.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(event.deltaY * 0.004), state.x0 + (event.clientX - box.left - gutter) / perCall());
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      const by = ((event.deltaX || event.deltaY) / inner()) * (state.x1 - state.x0);
      const span = state.x1 - state.x0;
      const from = Math.max(0, Math.min(state.x0 + by, stream().last + 1 - span));
      show(from, from + span);
    }
  }, { passive: false });
  scroll.addEventListener("scroll", ask, { passive: true });
  strip.addEventListener("pointerdown", (event) => {
    const x = event.clientX - strip.getBoundingClientRect().left - gutter;
    const middle = (x / inner()) * (stream().last + 1), half = (state.x1 - state.x0) / 2;
    show(middle - half, middle + half);
  });

  const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
  scroll.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) select((state.seq || Math.floor(state.x0) + 1) + moves[event.key]);
    else if (event.key === "Home") select(1);
    else if (event.key === "End") select(stream().last);
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const step = event.key === "ArrowUp" ? -1 : 1;
      let row = state.row + step;
      while (rows[row] && rows[row].kind !== "band") row += step;
      if (rows[row] && rows[row].focused) select(state.seq || Math.floor(state.x0) + 1, row);
      else if (rows[row]) { focus(rows[row].s); select(1); }
    } else if (event.key === "Enter" && state.seq) location.hash = `#call-${state.focus}-${state.seq}`;
    else return;
    event.preventDefault();
  });

  function toggleEach() {
    state.each = !state.each;
    $("map-each").setAttribute("aria-pressed", String(state.each));
    resize();
  }
  function toggleWide() {
    const wide = $("map").closest(".first").classList.toggle("enlarged");
    $("map-wide").setAttribute("aria-pressed", String(wide));
    resize();
    $("map").scrollIntoView({ block: wide ? "start" : "nearest" });
  }
  $("map-finding").addEventListener("click", start);
  $("map-finding").hidden = lead < 0;
  $("map-all").addEventListener("click", whole);
  $("map-in").addEventListener("click", () => zoom(0.5));
  $("map-out").addEventListener("click", () => zoom(2));
  $("map-each").addEventListener("click", toggleEach);
  $("map-wide").addEventListener("click", toggleWide);
  let before = 0;
  new ResizeObserver(() => {
    if (scroll.clientWidth !== before) { before = scroll.clientWidth; resize(); }
  }).observe(scroll);
  addEventListener("resize", resize);
  const used = new Set(D.forms.map((f) => f.f));
  $("legend").replaceChildren(
    ...D.families.map((name, n) => (used.has(n) ? el("li", {}, el("i", { class: `role-${n}` }), name) : null)).filter(Boolean),
    el("li", {}, el("i", { class: "pending" }), "issued; no rank recorded that it completed"), el("li", {}, el("i", { class: "other" }), "differs from the first row"));

  /** The first call of a form, as [stream, call]; null if no band has it. */
  function first(n) {
    for (let s = 0; s < D.streams.length; s++) {
      for (let b = 0; b < Math.min(16, D.streams[s].bands.length); b++) {
        const found = calls(s, b).indexOf(n + 1);
        if (found >= 0) return [s, found + 1];
      }
    }
    return null;
  }

  /** The row of a rank, in any stream that has it. */
  function toRank(rank) {
    const s = holds(stream().runs, rank) ? state.focus : D.streams.findIndex((one) => holds(one.runs, rank));
    if (s < 0) return;
    focus(s);
    const row = rows.findIndex((one) => one.kind === "band" && one.focused
      && (one.rank === undefined ? holds(D.streams[s].bands[one.b].runs, rank) : one.rank === rank));
    if (row >= 0) select(state.seq || D.streams[s].bands[rows[row].b].last, row);
  }

  return { around, resize, start, whole, zoom, select, ask, toggleEach, first, toRank, scroll, state };
}
