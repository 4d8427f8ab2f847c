"use strict";
// Draws what the page's data hold. Everything from a log is set as text, never as markup.
(() => {
  const $ = (id) => document.getElementById(id);
  const D = JSON.parse($("data").textContent);

  // -- elements ------------------------------------------------------------------------------

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      node.setAttribute(name, value === true ? "" : String(value));
    }
    node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return node;
  }
  const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  // -- ranks ---------------------------------------------------------------------------------

  /** "0-3,7" as [[0, 3], [7, 7]]. */
  const runs = (told) => (told ? told.split(",").map((run) => {
    const [a, b] = run.split("-");
    return [Number(a), Number(b ?? a)];
  }) : []);
  const holds = (list, rank) => list.some(([a, b]) => a <= rank && rank <= b);
  const count = (list) => list.reduce((sum, [a, b]) => sum + b - a + 1, 0);
  const each = (list) => list.flatMap(([a, b]) => Array.from({ length: b - a + 1 }, (_, i) => a + i));
  const joined = (list) => [...list].sort((a, b) => a[0] - b[0]).reduce((out, [a, b]) => {
    const last = out[out.length - 1];
    if (last && a <= last[1] + 1) last[1] = Math.max(last[1], b);
    else out.push([a, b]);
    return out;
  }, []);
  const named = (told, most = 26) => {
    const list = joined(runs(told));
    const text = list.map(([a, b]) => (a === b ? `${a}` : b === a + 1 ? `${a},${b}` : `${a}-${b}`)).join(",");
    return `rank${count(list) === 1 ? "" : "s"} ${text.length > most ? `${text.slice(0, most - 4)}\u2026 (${count(list)})` : text}`;
  };
  const stateOf = new Map();
  for (const state of D.states) for (const rank of each(runs(state.ranks))) stateOf.set(rank, state);
  const suspects = runs(D.findings.length && D.findings[0].severity === "error" ? D.findings[0].suspects : "");

  /** What the ranks of a band were doing, in a few words. */
  function doing(list) {
    const told = new Map();
    for (const rank of each(list.slice(0, 64))) {
      const state = stateOf.get(rank);
      if (state) told.set(state.told, (told.get(state.told) ?? 0) + 1);
    }
    return [...told.keys()].slice(0, 2).join("; ");
  }

  // -- calls ---------------------------------------------------------------------------------

  const CACHE = 48 << 20; // entries of all unpacked bands; the first of a stream always stays
  const cached = new Map();
  let held = 0;

  /** The forms of a band's calls, by place from 0: an index + 1, 0 where it was not read. */
  function calls(s, b) {
    const key = s * 100000 + b;
    const known = cached.get(key);
    if (known) {
      cached.delete(key);
      cached.set(key, known);
      return known;
    }
    const band = D.streams[s].bands[b];
    const before = b ? calls(s, 0) : new Uint16Array(0);
    const all = new Uint16Array(before.length + band.last);
    all.set(before);
    let at = before.length;
    for (let i = 0; i < band.codes.length; i++) {
      const code = band.codes[i];
      if (code >= 0) {
        all[at++] = code;
        continue;
      }
      const from = at + code;
      const length = band.codes[++i];
      // A copy that reaches into itself grows by what is there already.
      for (let done = 0; done < length;) {
        const step = Math.min(length - done, at + done - from);
        all.copyWithin(at + done, from, from + step);
        done += step;
      }
      at += length;
    }
    const own = b ? all.slice(before.length) : all;
    cached.set(key, own);
    held += own.length;
    for (const [old, text] of cached) {
      if (held <= CACHE || old === key) break;
      if (old % 100000 === 0) continue;
      cached.delete(old);
      held -= text.length;
    }
    return own;
  }
  const form = (s, b, seq) => {
    const band = D.streams[s].bands[b];
    return seq >= 1 && seq <= band.last ? calls(s, b)[seq - 1] : -1;
  };

  for (const stream of D.streams) {
    stream.runs = runs(stream.ranks);
    stream.marks = [];
    stream.last = Math.max(1, ...stream.bands.map((band) => band.last));
    for (const band of stream.bands) {
      band.runs = runs(band.ranks);
      band.doing = doing(band.runs);
      band.waits = each(band.runs.slice(0, 8)).some((rank) => ["blocked", "raised", "died"].includes(stateOf.get(rank)?.state));
      band.suspect = suspects.length > 0 && each(band.runs.slice(0, 64)).every((rank) => holds(suspects, rank));
    }
    const seen = stream.bands.flatMap((band) => band.runs);
    // Ranks that issued nothing here are a band without calls.
    const absent = each(stream.runs).filter((rank) => !holds(seen, rank));
    const by = new Map();
    for (const rank of absent) {
      const told = stateOf.get(rank)?.told ?? "";
      by.set(told, [...(by.get(told) ?? []), rank]);
    }
    for (const [told, ranks] of by) {
      const list = runs(ranks.join(","));
      stream.bands.push({ ranks: ranks.join(","), runs: list, last: 0, done: 0, codes: [], doing: told, suspect: suspects.length > 0 && ranks.every((rank) => holds(suspects, rank)) });
    }
  }
  D.findings.forEach((finding, n) => {
    if (finding.stream !== null && finding.severity !== "info")
      D.streams[finding.stream].marks.push({ seq: finding.seq, n, follows: finding.caused !== null });
  });
  const lead = D.findings.findIndex((f) => f.stream !== null && f.severity !== "info");

  // -- colours -------------------------------------------------------------------------------

  let ink = {};
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    ink = {
      text: of("--text"), quiet: of("--quiet"), line: of("--line"), ground: of("--ground"),
      panel: of("--panel"), suspect: of("--suspect"), other: of("--other"), band: of("--band"),
      roles: D.families.map((_, n) => of(`--role-${n}`)),
    };
  }

  // -- map -----------------------------------------------------------------------------------

  const GUTTER = 128;
  const NARROW_GUTTER = 84;
  const HEAD = 30;
  const LEAST = 4; // calls that a window shows at least
  const ROOM = 9; // calls that there is room for at least, however few there are
  const map = $("canvas") ? makeMap() : null;

  function makeMap() {
    const scroll = $("scroll"), canvas = $("canvas"), spacer = $("spacer"), strip = $("strip");
    const paper = canvas.getContext("2d"), stripPaper = strip.getContext("2d");
    const state = { focus: lead < 0 ? 0 : D.findings[lead].stream, x0: 0, x1: 1, each: false, seq: 0, row: -1 };
    let rows = [], width = 0, height = 0, gutter = GUTTER, queued = false, hover = null, total = 0;

    const stream = () => D.streams[state.focus];

    function layout() {
      rows = [];
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
          for (let b = 0; b < most; b++) add({ kind: "band", s, b, focused }, h);
        }
        if (focused) y += 8;
      }
      total = y;
      spacer.style.height = `${Math.max(0, total - height)}px`;
    }

    function resize() {
      // Few rows need little room; many get what there is, and scroll.
      height = most();
      layout();
      height = Math.max(90, Math.min(height, total));
      scroll.style.height = `${height + 2}px`;
      width = scroll.clientWidth;
      gutter = width < 520 ? NARROW_GUTTER : GUTTER;
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
    const inner = () => width - gutter - 8;
    const perCall = () => inner() / (state.x1 - state.x0);
    const xOf = (seq) => gutter + (seq - 1 - state.x0) * perCall();

    function clamp() {
      const last = stream().last;
      const span = Math.max(LEAST, Math.min(state.x1 - state.x0, Math.max(ROOM, last + 1)));
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

    /** As much of a text as there is room for; nothing where that says nothing. */
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
        if (row.h >= 15 && short) text(`${band.last.toLocaleString("en")}, ${doing(list)}`, end + 6, y + row.h / 2, width - end - 12, suspect ? ink.suspect : ink.quiet);
      }
      paper.restore();
    }

    function drawCells(row, band, x0, x1, per, y, h) {
      const one = D.streams[row.s];
      const codes = calls(row.s, row.b), main = row.b ? calls(row.s, 0) : codes;
      const gap = per >= 8 ? 1 : 0;
      for (let i = Math.max(0, Math.floor(x0)); i < Math.min(band.last, Math.ceil(x1)); i++) {
        const f = D.forms[codes[i] - 1];
        const x = gutter + (i - x0) * per;
        // Issued, and not known to be complete.
        const pending = row.focused && per >= 8 && (band.done ? i + 1 > band.done : i + 1 === band.last && band.waits);
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
          text(f.op, x + 5, y + (h >= 30 ? h / 2 - 6 : h / 2), per - 8, colour);
          if (h >= 30) text(f.short || f.who, x + 5, y + h / 2 + 7, per - 8, colour);
        }
      }
    }

    /** Where calls are narrower than a pixel: of each stretch, the shares of the roles, stacked. */
    function drawShares(row, band, x0, x1, per, y, h) {
      const codes = calls(row.s, row.b);
      const main = row.b && row.focused && !D.streams[row.s].message ? calls(row.s, 0) : codes;
      const column = 2, families = D.families.length;
      const shares = new Uint32Array(families + 1);
      for (let x = 0; x < inner(); x += column) {
        const from = Math.floor(x0 + x / per), to = Math.min(band.last, Math.floor(x0 + (x + column) / per));
        if (from >= band.last) break;
        const n = Math.max(1, to - from), step = Math.max(1, Math.floor(n / 61));
        shares.fill(0);
        let sum = 0, differs = false;
        for (let i = from; i < from + n; i += step) {
          differs ||= codes[i] !== main[i] && codes[i] && main[i];
          const f = D.forms[codes[i] - 1];
          shares[f ? f.f : families]++;
          sum++;
        }
        let at = y;
        for (let k = 0; k <= families; k++) {
          if (!shares[k]) continue;
          const part = (h * shares[k]) / sum;
          paper.fillStyle = k < families ? ink.roles[k] : ink.line;
          paper.fillRect(gutter + x, at, column, part);
          at += part;
        }
        if (differs) {
          paper.fillStyle = ink.text;
          paper.fillRect(gutter + x, y + h - 3, column, 3);
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

    function whole() { show(0, Math.max(ROOM, stream().last + 1)); }

    /** The window in which a call stands with what came before it. */
    function around(s, seq) {
      focus(s);
      const n = Math.max(LEAST, Math.min(48, Math.round(inner() / 66)));
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
      el("li", {}, el("i", { class: "pending" }), "issued, not known complete"), el("li", {}, el("i", { class: "other" }), "not as in the first row"));

    /** The first call of a form, as [stream, call]; null where no band has it. */
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

  // -- side by side: more rows ---------------------------------------------------------------

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
      const ops = new Set(told.filter(Boolean).map((f) => f.op));
      const whats = new Set(told.filter(Boolean).map((f) => f.what));
      const shared = ops.size === 1 ? [...ops][0] : "";
      return el("tr", { "data-seq": seq, class: "added" },
        el("td"), el("td", { class: "seq" }, el("a", { href: `#call-${finding.stream}-${seq}` }, String(seq))),
        el("td", {}, shared),
        ...told.map((f, n) => (f
          ? el("td", {}, whats.size > 1 ? el("mark", {}, f.what) : "", whats.size > 1 ? " " : "", f.short || f.site || f.who)
          : el("td", {}, forms[n] < 0 ? "no call" : "not read"))));
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

  // -- who waits for whom --------------------------------------------------------------------

  function drawWaits(box) {
    const { nodes, edges, more } = D.waits;
    const W = 216, H = 58, GAP = 92;
    const depth = nodes.map(() => 0);
    const ring = [...new Set(edges.filter((e) => e[3]).flatMap((e) => [e[0], e[1]]))];
    // Whoever waits stands left of what it waits for.
    for (let turn = 0; turn < nodes.length; turn++) {
      let moved = false;
      for (const [a, b, , circular] of edges) {
        if (circular || ring.includes(a) || depth[a] > depth[b] || depth[b] > 40) continue;
        depth[a] = depth[b] + 1;
        moved = true;
      }
      if (!moved) break;
    }
    const place = new Map();
    const base = ring.length ? 1 : 0;
    const radius = ring.length < 2 ? 0 : Math.max(110, (ring.length * (ring.length > 3 ? 130 : 110)) / (2 * Math.PI));
    const stretch = 1.55;
    const columns = new Map();
    nodes.forEach((_, n) => {
      if (ring.includes(n)) return;
      if (!columns.has(depth[n])) columns.set(depth[n], []);
      columns.get(depth[n]).push(n);
    });
    const ordered = [...columns.keys()].sort((a, b) => b - a);
    const tallest = Math.max(1, ...[...columns.values()].map((list) => list.length));
    // Around a circle those who wait stand below it, in rows; else who waits stands left.
    const rows = ring.length ? ordered.reverse() : [];
    const middle = ring.length === 2 ? H + 44 : base ? (ring.length === 3 ? 1.5 : 2) * radius + H + 24 : tallest * (H + 18) + 24;
    const height = middle + rows.length * (H + 46);
    let x = 12;
    if (!ring.length) {
      for (const d of ordered) {
        const list = columns.get(d);
        list.forEach((n, i) => place.set(n, [x, middle / 2 + (i - (list.length - 1) / 2) * (H + 18) - H / 2]));
        x += W + GAP;
      }
    }
    if (ring.length) {
      // In the order of the circle.
      const next = new Map(edges.filter((e) => e[3]).map((e) => [e[0], e[1]]));
      const order = [];
      for (let n of ring) while (n !== undefined && !order.includes(n)) { order.push(n); n = next.get(n); }
      const down = ring.length === 3 ? radius / 4 : 0; // the middle of a triangle is not that of its circle
      const cx = x + (ring.length > 1 ? radius * stretch : 0) + W / 2;
      order.forEach((n, i) => {
        const angle = (ring.length === 2 ? Math.PI : -Math.PI / 2) + (2 * Math.PI * i) / order.length;
        place.set(n, [cx + radius * stretch * Math.cos(angle) - W / 2, middle / 2 + down + radius * Math.sin(angle) - H / 2]);
      });
      x = cx + radius * stretch + W / 2 + 24;
      rows.forEach((d, r) => columns.get(d).forEach((n, i) => {
        // Every other row is moved, so that what waits for the circle itself can be seen to.
        const left = 12 + i * (W + 24) + (r % 2 ? 0 : W * 0.7);
        place.set(n, [left, middle + 34 + r * (H + 46)]);
        x = Math.max(x, left + W + 24);
      }));
    }
    const width = Math.max(x - (ring.length ? 0 : GAP) + 12, 240);
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-labelledby": "graph-title" },
      svg("title", { id: "graph-title" }, `who waits for whom: ${nodes.length} nodes${ring.length ? `, ${ring.length} of them in a circle` : ""}`),
      svg("defs", {}, ...["plain", "circle"].map((kind) =>
        svg("marker", { id: `arrow-${kind}`, class: `arrow ${kind}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" },
          svg("path", { d: "M0 0L8 4L0 8z" })))));
    const border = (from, to) => {
      const [ax, ay] = [from[0] + W / 2, from[1] + H / 2], [bx, by] = [to[0] + W / 2, to[1] + H / 2];
      const dx = ax - bx, dy = ay - by;
      const scale = Math.min(dx ? (W / 2 + 3) / Math.abs(dx) : Infinity, dy ? (H / 2 + 3) / Math.abs(dy) : Infinity);
      return [bx + dx * Math.min(1, scale), by + dy * Math.min(1, scale)];
    };
    for (const [a, b, row, circular] of edges) {
      const [x1, y1] = border(place.get(b), place.get(a)), [x2, y2] = border(place.get(a), place.get(b));
      const both = edges.some((e) => e[0] === b && e[1] === a);
      const bend = both ? 26 : 0;
      const long = Math.hypot(x2 - x1, y2 - y1) || 1;
      const mx = (x1 + x2) / 2 - ((y2 - y1) / long) * bend, my = (y1 + y2) / 2 + ((x2 - x1) / long) * bend;
      picture.append(svg("path", { class: circular ? "edge circle" : "edge", d: `M${x1} ${y1}Q${mx} ${my} ${x2} ${y2}`, "marker-end": `url(#arrow-${circular ? "circle" : "plain"})` }));
      if (row !== null && edges.length < 40)
        picture.append(svg("text", { class: "edge-label", x: (x1 + x2) / 4 + mx / 2, y: (y1 + y2) / 4 + my / 2 - 5, "text-anchor": "middle" }, `${nodes[a].message ? "message" : "call"} ${row}`));
    }
    const cut = (told, most) => (told.length > most ? `${told.slice(0, most - 1)}\u2026` : told);
    nodes.forEach((node, n) => {
      const [nx, ny] = place.get(n);
      const guilty = runs(node.ranks).every(([a, b]) => holds(suspects, a) && holds(suspects, b)) && suspects.length;
      const of = node.group === "the default group" ? "" : ` of ${node.group}`;
      const what = node.op ? `${node.op}${node.seq !== null ? `, ${node.message ? "message" : "call"} ${node.seq}` : ""}${of}` : node.told;
      const last = node.op ? [node.site, node.held].filter(Boolean).join(" \u00b7 ") : "waits for nobody";
      picture.append(svg("g", { class: `node${guilty ? " suspect" : ""}${node.op ? "" : " end"}${ring.includes(n) ? " ring" : ""}` },
        svg("title", {}, `${node.ranks}: ${what}`),
        svg("rect", { x: nx, y: ny, width: W, height: H, rx: 4 }),
        svg("text", { x: nx + 10, y: ny + 18, class: "name" }, cut(`${named(node.ranks, 18)}${node.thread ? `, ${node.thread}` : ""}`, 30)),
        svg("text", { x: nx + 10, y: ny + 34 }, cut(what, 35)),
        svg("text", { x: nx + 10, y: ny + 49, class: "quiet" }, cut(last, 36))));
    });
    box.append(picture);
    if (more) box.append(el("p", { class: "quiet" }, `${more} more are left out.`));
  }

  // -- stacks --------------------------------------------------------------------------------

  function drawFlame(box) {
    const whole = Math.max(...D.stacks.map((root) => count(runs(root.ranks))));
    const short = (name) => name.replace(/^.*\/(?=[^/]*:\d+ )/, "");
    const foreign = (name) => /^<frozen|\/(site|dist)-packages\/|\/lib\/python\d|\/torch\//.test(name);
    const part = (frame, all) => {
      const n = count(runs(frame.ranks));
      const item = el("li", { class: n < all / 2 ? "odd" : null },
        el("div", { class: foreign(frame.name) ? "frame foreign" : "frame", title: `${frame.name}\n${frame.ranks}` }, el("b", {}, n === all ? "" : `${named(frame.ranks)} `), short(frame.name)));
      item.style.flexGrow = String(n);
      if (frame.inner.length) item.append(el("ul", {}, ...frame.inner.map((inner) => part(inner, all))));
      return item;
    };
    const roots = D.stacks.filter((root, n) => n === 0 || count(runs(root.ranks)) >= whole / 4 || D.stacks.length < 4);
    const rest = D.stacks.filter((root) => !roots.includes(root));
    const tree = (root) => el("figure", {}, el("figcaption", {}, `${root.name}, ${named(root.ranks)}`), el("ul", { class: "flame" }, ...root.inner.map((inner) => part(inner, count(runs(root.ranks))))));
    box.append(...roots.slice(0, 1).map(tree));
    const others = [...roots.slice(1), ...rest].slice(0, 24);
    if (others.length) box.append(el("details", {}, el("summary", {}, `${others.length} other thread${others.length > 1 ? "s" : ""}`), ...others.map(tree)));
  }

  // -- charts --------------------------------------------------------------------------------

  const time = (ns) => (ns >= 1e9 ? `${(ns / 1e9).toFixed(ns >= 1e10 ? 0 : 1)} s` : ns >= 1e6 ? `${(ns / 1e6).toFixed(ns >= 1e7 ? 0 : 1)} ms` : `${Math.round(ns / 1e3)} \u00b5s`);
  const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

  /** A bar per rank; what stands far above the others is marked. */
  function bars(title, values, told, least = 0) {
    const most = Math.max(...values.map((v) => v[1]), 1e-9);
    const usual = median(values.map((v) => v[1]));
    const odd = (v) => values.length > 1 && v > 2 * usual && v > most / 2 && v > least;
    const listed = `${title}: ${values.slice(0, 32).map(([rank, v]) => `rank ${rank} ${told(v)}`).join(", ")}`;
    if (values.length <= 16) {
      const rows = values.map(([rank, v], n) => svg("g", { class: odd(v) ? "odd" : null },
        svg("text", { x: 52, y: n * 20 + 15, "text-anchor": "end" }, `rank ${rank}`),
        svg("rect", { x: 60, y: n * 20 + 5, width: Math.max(1, (v / most) * 250), height: 13 }),
        svg("text", { x: 66 + Math.max(1, (v / most) * 250), y: n * 20 + 15, class: "value" }, told(v))));
      return el("figure", { class: "chart" }, el("figcaption", {}, title),
        svg("svg", { viewBox: `0 0 400 ${values.length * 20 + 6}`, role: "img", "aria-label": listed }, ...rows));
    }
    const w = 380 / values.length;
    const ordered = [...values].sort((a, b) => a[0] - b[0]);
    const worst = values.reduce((a, b) => (b[1] > a[1] ? b : a));
    const at = ordered.indexOf(worst) * w;
    return el("figure", { class: "chart" }, el("figcaption", {}, title),
      svg("svg", { viewBox: "0 0 400 150", role: "img", "aria-label": listed },
        ...ordered.map(([rank, v], n) => svg("rect", { class: odd(v) ? "odd" : null, x: 10 + n * w, y: 126 - (v / most) * 104, width: Math.max(0.3, w * 0.82), height: Math.max(0.5, (v / most) * 104) }, svg("title", {}, `rank ${rank}: ${told(v)}`))),
        svg("text", { x: Math.min(330, Math.max(60, 10 + at)), y: 14, "text-anchor": "middle", class: odd(worst[1]) ? "odd" : "value" }, `rank ${worst[0]}: ${told(worst[1])}`),
        svg("line", { x1: 10, y1: 126, x2: 390, y2: 126 }),
        svg("text", { x: 10, y: 142 }, `rank ${ordered[0][0]}`),
        svg("text", { x: 390, y: 142, "text-anchor": "end" }, `${ordered[ordered.length - 1][0]}`)));
  }

  /** How far behind the first rank each came, by call. */
  function course(one) {
    const all = one.course.flatMap(([, late]) => late);
    const most = Math.max(...all, 1);
    const worst = one.totals[0][0];
    const w = 560, h = 130;
    const x = (i) => 54 + (i / Math.max(1, one.marks.length - 1)) * (w - 70);
    const y = (us) => h - 22 - (us / most) * (h - 42);
    const line = ([rank, late]) => svg("polyline", { class: rank === worst ? "odd" : null, points: late.map((us, i) => `${x(i).toFixed(1)},${y(us).toFixed(1)}`).join(" ") }, svg("title", {}, `rank ${rank}`));
    const order = [...one.course].sort((a, b) => (a[0] === worst) - (b[0] === worst));
    return el("figure", { class: "chart broad" }, el("figcaption", {}, `${one.group}: how long after the first rank each came, at worst, along the calls; rank ${worst} marked`),
      svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `rank ${worst} came up to ${time(Math.max(...(one.course.find((c) => c[0] === worst)?.[1] ?? [0])) * 1000)} after the first` },
        svg("line", { x1: 54, y1: h - 22, x2: w - 16, y2: h - 22 }),
        svg("text", { x: 48, y: 26, "text-anchor": "end" }, time(most * 1000)),
        svg("text", { x: 48, y: h - 20, "text-anchor": "end" }, "0"),
        svg("text", { x: 54, y: h - 6 }, `call ${one.marks[0]}`),
        svg("text", { x: w - 16, y: h - 6, "text-anchor": "end" }, `${one.marks[one.marks.length - 1]}`),
        ...order.map(line)));
  }

  function drawCharts(box) {
    for (const one of D.lateness.slice(0, 3)) {
      if (one.marks.length > 1) box.append(course(one));
      box.append(bars(`${one.group}: time by which each rank kept the others waiting, over ${one.rows.toLocaleString("en")} calls in ${time(one.span)}`, one.totals.map(([rank, ns]) => [rank, ns]), time, one.span / 50));
    }
    if (D.loading.length) {
      box.append(bars("batches fetched, by rank", D.loading.map(([rank, n]) => [rank, n]), String));
      box.append(bars("time spent waiting for data, by rank", D.loading.map(([rank, , ns]) => [rank, ns]), time));
    }
  }

  // -- search --------------------------------------------------------------------------------

  const entries = [
    ...D.findings.map((f, n) => ({ kind: "finding", text: f.headline, go: `#finding-${n + 1}` })),
    ...D.states.flatMap((s) => (s.detail || s.last ? [{ kind: named(s.ranks), text: [s.told, s.detail, s.last].filter(Boolean).join("; "), go: "#ranks" }] : [])),
    ...D.streams.map((s, n) => ({ kind: "group", text: s.name, go: `#call-${n}-${Math.max(1, s.marks[0]?.seq ?? s.last)}` })),
    ...D.forms.map((f, n) => ({ kind: "call", text: [f.what, f.who, f.site, f.via].filter(Boolean).join(" \u00b7 "), form: n })),
  ];

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
    field.addEventListener("blur", () => setTimeout(close, 100));
  }

  // -- links and keys ------------------------------------------------------------------------

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
})();
