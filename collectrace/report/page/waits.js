// Who waits for whom, as a picture.

function drawWaits(box) {
  const { nodes, edges, more } = D.waits;
  const W = 216, H = 58, GAP = 92;
  const depth = nodes.map(() => 0);
  const ring = [...new Set(edges.filter((e) => e[3]).flatMap((e) => [e[0], e[1]]))];
  // A node is drawn left of the nodes that it waits for.
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
  // Nodes that wait for a circle are drawn below it, in rows.
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
    const down = ring.length === 3 ? radius / 4 : 0; // a triangle's middle is not its circle's
    const cx = x + (ring.length > 1 ? radius * stretch : 0) + W / 2;
    order.forEach((n, i) => {
      const angle = (ring.length === 2 ? Math.PI : -Math.PI / 2) + (2 * Math.PI * i) / order.length;
      place.set(n, [cx + radius * stretch * Math.cos(angle) - W / 2, middle / 2 + down + radius * Math.sin(angle) - H / 2]);
    });
    x = cx + radius * stretch + W / 2 + 24;
    rows.forEach((d, r) => columns.get(d).forEach((n, i) => {
      // Every second row is shifted, so that edges to the circle stay visible.
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
    const last = node.op ? [node.site, node.held].filter(Boolean).join(" \u00b7 ") : "waits for no rank";
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
