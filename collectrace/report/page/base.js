"use strict";
// Draws the page's data. All text from a log is set as text, never as markup.
// The parts of the script share one scope, in the order of _SCRIPTS in __init__.py.

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
  const text = list.map(([a, b]) => (a === b ? `${a}` : `${a}-${b}`)).join(",");
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

const CACHE = 48 << 20; // entries of all unpacked bands; the first band of a stream is always kept
const cached = new Map();
let held = 0;

/** The forms of a band's calls, by position from 0: an index + 1, or 0 if the call was not read. */
function calls(s, b) {
  const key = s * 100000 + b;
  const known = cached.get(key);
  if (known) {
    cached.delete(key);
    cached.set(key, known);
    return known;
  }
  const band = D.streams[s].bands[b];
  const first = b ? calls(s, 0) : new Uint16Array(0);
  const own = new Uint16Array(band.last);
  let at = 0;
  for (let i = 0; i < band.codes.length; i++) {
    const code = band.codes[i];
    if (code >= 0) {
      own[at++] = code;
      continue;
    }
    let from = at + code, left = band.codes[++i];
    if (from < 0) {
      const start = first.length + from, length = Math.min(left, -from);
      own.set(first.subarray(start, start + length), at);
      at += length;
      left -= length;
      from = 0;
    }
    // A copy may overlap its own output, and then repeats it.
    while (left > 0) {
      const step = Math.min(left, at - from);
      own.copyWithin(at, from, from + step);
      at += step;
      left -= step;
    }
  }
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

/** The form of one call, as in `calls`, without unpacking the band; -1 if there is none. */
function form(s, b, seq) {
  const band = D.streams[s].bands[b];
  if (seq < 1 || seq > band.last) return -1;
  if (!b) return calls(s, b)[seq - 1];
  if (!band.starts) {
    // Where each number, or each copy, begins: [place, index of its code].
    band.starts = [];
    let at = 0;
    for (let i = 0; i < band.codes.length; i++) {
      band.starts.push([at, i]);
      at += band.codes[i] < 0 ? band.codes[++i] : 1;
    }
  }
  let place = seq - 1;
  for (;;) {
    let low = 0, high = band.starts.length - 1;
    if (high < 0) return 0;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (band.starts[middle][0] <= place) low = middle;
      else high = middle - 1;
    }
    const [start, i] = band.starts[low], code = band.codes[i];
    if (code >= 0) return code;
    place = start + code + ((place - start) % -code);
    if (place < 0) return calls(s, 0)[D.streams[s].bands[0].last + place];
  }
}

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
