// Stacks merged over ranks, and times by rank.

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

/** The suspect is looked for first; without one, the rank that lost most. */
const sought = (one) => one.course.map(([rank]) => rank).find((rank) => holds(suspects, rank)) ?? one.totals[0][0];

/** A bar per rank; one rank is marked, or else bars that are far higher than the others. */
function bars(title, values, told, marked = null) {
  const most = Math.max(...values.map((v) => v[1]), 1e-9);
  const usual = median(values.map((v) => v[1]));
  const odd = ([rank, v]) => (marked === null ? values.length > 1 && v > 2 * usual && v > most / 2 : rank === marked);
  const listed = `${title}: ${values.slice(0, 32).map(([rank, v]) => `rank ${rank} ${told(v)}`).join(", ")}`;
  if (values.length <= 16) {
    const rows = values.map(([rank, v], n) => svg("g", { class: odd([rank, v]) ? "odd" : null },
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
      ...ordered.map(([rank, v], n) => svg("rect", { class: odd([rank, v]) ? "odd" : null, x: 10 + n * w, y: 126 - (v / most) * 104, width: Math.max(0.3, w * 0.82), height: Math.max(0.5, (v / most) * 104) }, svg("title", {}, `rank ${rank}: ${told(v)}`))),
      svg("text", { x: Math.min(330, Math.max(60, 10 + at)), y: 14, "text-anchor": "middle", class: odd(worst) ? "odd" : "value" }, `rank ${worst[0]}: ${told(worst[1])}`),
      svg("line", { x1: 10, y1: 126, x2: 390, y2: 126 }),
      svg("text", { x: 10, y: 142 }, `rank ${ordered[0][0]}`),
      svg("text", { x: 390, y: 142, "text-anchor": "end" }, `${ordered[ordered.length - 1][0]}`)));
}

/** How late each rank was behind the first, by call. */
function course(one) {
  const columns = one.marks.map((_, i) => Math.max(...one.course.map(([, late]) => late[i])));
  const later = Math.max(...columns.slice(1), 1);
  // The first call waits for every rank to start: its lateness would hide all others.
  const isCut = columns.length > 2 && columns[0] > 3 * later;
  const most = isCut ? later : Math.max(...columns, 1);
  const worst = sought(one);
  const w = 560, h = 130;
  const x = (i) => 54 + (i / Math.max(1, one.marks.length - 1)) * (w - 70);
  const y = (us) => h - 22 - Math.min(1, us / most) * (h - 42);
  const line = ([rank, late]) => svg("polyline", { class: rank === worst ? "odd" : null, points: late.map((us, i) => `${x(i).toFixed(1)},${y(us).toFixed(1)}`).join(" ") }, svg("title", {}, `rank ${rank}`));
  const order = [...one.course].sort((a, b) => (a[0] === worst) - (b[0] === worst));
  return el("figure", { class: "chart broad" }, el("figcaption", {}, `${one.group}: how long after the first rank each rank began a call; rank ${worst}${holds(suspects, worst) ? ", the suspect," : ""} is highlighted`),
    svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `rank ${worst} came up to ${time(Math.max(...(one.course.find((c) => c[0] === worst)?.[1] ?? [0])) * 1000)} after the first` },
      svg("line", { x1: 54, y1: h - 22, x2: w - 16, y2: h - 22 }),
      svg("text", { x: 48, y: 26, "text-anchor": "end" }, time(most * 1000)),
      svg("text", { x: 48, y: h - 20, "text-anchor": "end" }, "0"),
      isCut ? svg("text", { x: 58, y: 14, class: "value" }, `call ${one.marks[0]}: ${time(columns[0] * 1000)}, not to scale`) : "",
      svg("text", { x: 54, y: h - 6 }, `call ${one.marks[0]}`),
      svg("text", { x: w - 16, y: h - 6, "text-anchor": "end" }, `${one.marks[one.marks.length - 1]}`),
      ...order.map(line)));
}

function drawCharts(box) {
  for (const one of D.lateness.slice(0, 3)) {
    if (one.marks.length > 1) box.append(course(one));
    box.append(bars(`${one.group}: time by which each rank kept the others waiting, over ${one.rows.toLocaleString("en")} calls in ${time(one.span)}`, one.totals.map(([rank, ns]) => [rank, ns]), time, sought(one)));
  }
  if (D.loading.length) {
    box.append(bars("batches fetched, by rank", D.loading.map(([rank, n]) => [rank, n]), String));
    box.append(bars("time spent waiting for data, by rank", D.loading.map(([rank, , ns]) => [rank, ns]), time));
  }
}
