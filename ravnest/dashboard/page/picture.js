// The clusters of a job as a picture: a box for each stage, from the root to the leaf, with an arrow
// to the next. Boxes that do not fit beside each other go on in the next row.

import { html, keep, memory, number, set_attribute, set_text, svg } from "/dom.js";

const HEIGHT = 120;
const NARROWEST = 152;
const WIDEST = 264;
const GAP = 72;
const ROW_GAP = 44;
const PADDING = 16;

// How a box looks, by what its stage does.
const LOOKS = {
  computes: "computes",
  waits: "waits",
  sends: "sends",
  prepares: "prepares",
  "is ready": "prepares",
  starts: "prepares",
  "is silent": "absent",
  "is awaited": "absent",
};

const ruler = document.createElement("canvas").getContext("2d");

function fit(text, width, weight = 400) {
  ruler.font = `${weight} 13px ${getComputedStyle(document.body).fontFamily}`;
  if (ruler.measureText(text).width <= width) {
    return text;
  }
  const letters = Array.from(text);
  while (letters.length > 0 && ruler.measureText(letters.join("") + "…").width > width) {
    letters.pop();
  }
  return letters.join("") + "…";
}

function layout(count, width) {
  const columns = Math.max(1, Math.min(count, Math.floor((width + GAP) / (NARROWEST + GAP))));
  const share = (width - (columns - 1) * GAP) / columns;
  const box = columns === 1 ? Math.min(width, 400) : Math.min(WIDEST, share);
  const rows = Math.ceil(count / columns);
  return {
    box,
    height: rows * HEIGHT + (rows - 1) * ROW_GAP,
    at: (index) => ({
      x: (index % columns) * (box + GAP),
      y: Math.floor(index / columns) * (HEIGHT + ROW_GAP),
    }),
  };
}

function make_box(box) {
  const inner = box - 2 * PADDING;
  const group = svg("g");
  const parts = {
    title: svg("title"),
    role: svg("text", { class: "soft", x: PADDING, y: 24 }),
    relayed: svg("text", { class: "soft end", x: box - PADDING, y: 24 }),
    name: svg("text", { class: "strong", x: PADDING, y: 46 }),
    word: svg("text", { class: "word", x: PADDING, y: 68 }),
    delay: svg("text", { class: "soft end", x: box - PADDING, y: 68 }),
    compute: svg("rect", { class: "share compute", y: 77, height: 8 }),
    wait: svg("rect", { class: "share wait", y: 77, height: 8 }),
    send: svg("rect", { class: "share send", y: 77, height: 8 }),
    memory: svg("rect", { class: "memory", x: PADDING, y: 106, height: 3, rx: 1.5 }),
    bytes: svg("text", { class: "soft", x: PADDING, y: 100 }),
  };
  group.append(
    svg("rect", { class: "box", width: box, height: HEIGHT, rx: 8 }),
    svg("rect", { class: "stripe", y: 8, width: 4, height: HEIGHT - 16, rx: 2 }),
    svg("rect", { class: "memory-ground", x: PADDING, y: 106, width: inner, height: 3, rx: 1.5 }),
    ...Object.values(parts),
  );
  group.parts = parts;
  return group;
}

function describe(stage) {
  const lines = [
    `${stage.name || "vacant"}: stage ${stage.stage}, ${stage.role}, ${stage.doing}`,
    `operators ${stage.first_op} to ${stage.last_op}, weights ${stage.weights}`,
  ];
  if (stage.report) {
    const { computing, waiting, sending, send_mbps, receive_mbps } = stage.report;
    const percent = (share) => `${Math.round(share * 100)} %`;
    lines.push(
      `computes ${percent(computing)}, waits ${percent(waiting)}, sends ${percent(sending)}`,
      `sends ${number(send_mbps)}, receives ${number(receive_mbps)} Mbit/s in all`,
      `version ${number(stage.report.version)}`,
    );
    if (stage.report.averaging) {
      lines.push(stage.report.averaging);
    }
  }
  return lines.join("\n");
}

function update_shares(parts, report, inner) {
  let x = PADDING;
  const shares = { compute: report?.computing, wait: report?.waiting, send: report?.sending };
  for (const [name, share] of Object.entries(shares)) {
    const width = Math.min(Math.max(share ?? 0, 0), 1) * inner;
    set_attribute(parts[name], "x", x.toFixed(1));
    set_attribute(parts[name], "width", Math.min(width, PADDING + inner - x).toFixed(1));
    x = Math.min(x + width, PADDING + inner);
  }
}

// What its process has of what the machine lends; before there is one, what the plan foresees.
function memory_of(stage, lent) {
  if (!stage.report) {
    return { text: `needs ${memory(stage.memory_bytes)}`, full: 0 };
  }
  const used = stage.report.memory_bytes;
  return {
    text: memory(used) + (lent > 0 ? ` of ${memory(lent)}` : ""),
    full: lent > 0 ? Math.min(1, used / lent) : 0,
  };
}

function update_box(group, stage, place, lent) {
  const { parts } = group;
  const inner = place.box - 2 * PADDING;
  const { x, y } = place.at(stage.stage);
  const { report } = stage;
  const { text, full } = memory_of(stage, lent);
  set_attribute(group, "transform", `translate(${x} ${y})`);
  set_attribute(group, "class", `stage ${LOOKS[stage.doing] ?? "waits"}`);
  set_text(parts.title, describe(stage));
  set_text(parts.role, `${stage.role} · stage ${stage.stage}`);
  set_text(parts.relayed, stage.is_relayed ? "⇄ relayed" : "");
  set_text(parts.name, fit(stage.name || "vacant", inner, 600));
  set_text(parts.word, stage.doing);
  set_text(parts.delay, report ? `delay ${number(report.delay)}` : "");
  set_text(parts.bytes, text);
  set_attribute(parts.memory, "width", (full * inner).toFixed(1));
  update_shares(parts, report, inner);
}

function make_link() {
  const group = svg("g");
  group.parts = {
    title: svg("title"),
    line: svg("path", { class: "link" }),
    tip: svg("path", { class: "tip" }),
    rate: svg("text", { class: "soft middle halo" }),
    unit: svg("text", { class: "soft middle halo" }),
  };
  group.append(...Object.values(group.parts));
  return group;
}

// From one box to the next: straight within a row, else down, back and down again.
function update_link(group, { from, to }, place) {
  const { parts } = group;
  const a = place.at(from.stage);
  const b = place.at(to.stage);
  const is_straight = a.y === b.y;
  let is_beside = false; // the label, to the line
  const middle = { x: a.x + place.box + GAP / 2, y: a.y + HEIGHT / 2 };
  if (is_straight) {
    set_attribute(parts.line, "d", `M${a.x + place.box + 6} ${middle.y}H${b.x - 10}`);
    set_attribute(parts.tip, "d", `M${b.x - 4} ${middle.y}l-8 -4.5v9z`);
  } else {
    const out = a.x + place.box / 2;
    const into = b.x + place.box / 2;
    middle.y = a.y + HEIGHT + ROW_GAP / 2;
    is_beside = out === into;
    middle.x = is_beside ? into + 44 : (out + into) / 2;
    set_attribute(parts.line, "d", `M${out} ${a.y + HEIGHT + 5}V${middle.y}H${into}V${b.y - 11}`);
    set_attribute(parts.tip, "d", `M${into} ${b.y - 5}l-4.5 -8h9z`);
  }
  const rate = from.report ? number(from.report.send_mbps) : "";
  set_attribute(parts.line, "class", from.is_relayed || to.is_relayed ? "link relayed" : "link");
  set_text(parts.rate, is_straight || !rate ? rate : `${rate} Mbit/s`);
  set_text(parts.unit, is_straight && rate ? "Mbit/s" : "");
  set_attribute(parts.rate, "x", middle.x);
  set_attribute(parts.rate, "y", is_beside ? middle.y + 4 : middle.y - 8);
  set_attribute(parts.unit, "x", middle.x);
  set_attribute(parts.unit, "y", middle.y + 18);
  set_text(
    parts.title,
    `${from.name} sends ${rate || "nothing yet"}${rate ? " Mbit/s" : ""} in all` +
      (from.is_relayed || to.is_relayed ? "; this link goes through the server" : ""),
  );
}

function make_cluster() {
  const label = html("p", { class: "label" }, html("b"), html("span"));
  const picture = svg("svg", { role: "img" }, svg("g"), svg("g"));
  return html("div", { class: "cluster" }, label, picture);
}

function update_cluster(node, cluster, width, lent) {
  const [label, picture] = node.children;
  const [links, boxes] = picture.children;
  const { stages } = cluster;
  const place = layout(stages.length, width);
  const said = stages.map((stage) => `${stage.role} ${stage.name} ${stage.doing}`).join(", ");
  set_text(label.children[0], `Cluster ${cluster.id}`);
  set_text(label.children[1], cluster.is_running ? " trains" : " prepares");
  set_attribute(picture, "height", place.height);
  set_attribute(picture, "aria-label", `Cluster ${cluster.id}: ${said}`);
  keep(
    links,
    stages.slice(1).map((to, index) => ({ from: stages[index], to })),
    (link) => link.to.stage,
    make_link,
    (group, link) => update_link(group, link, place),
  );
  keep(
    boxes,
    stages,
    (stage) => `${stage.stage}/${place.box}`,
    () => make_box(place.box),
    (group, stage) => update_box(group, stage, place, lent.get(stage.provider)),
  );
}

// `lent`: bytes of memory, by provider.
export function draw_clusters(parent, clusters, lent) {
  const width = parent.clientWidth;
  if (width === 0) {
    return; // not laid out yet; whoever watches its size calls again
  }
  keep(
    parent,
    clusters,
    (cluster) => cluster.id,
    make_cluster,
    (node, cluster) => update_cluster(node, cluster, width, lent),
  );
}
