// A curve over the weight version: axes, and the value under the pointer or the arrow keys.

import { html, number, svg } from "/dom.js";

const HEIGHT = 216;
const LEFT = 48;
const RIGHT = 8;
const TOP = 12;
const BOTTOM = 32;

// About `count` round values in a range.
function round_steps(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const steps = [];
  for (let index = Math.ceil(low / step); index * step <= high + step * 1e-9; ++index) {
    steps.push(index * step);
  }
  return steps;
}

function log_steps(low, high) {
  const steps = [];
  const is_short = high / low < 30;
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power) {
    for (const factor of is_short ? [1, 2, 5] : [1]) {
      steps.push(factor * 10 ** power);
    }
  }
  return steps.filter((step) => step >= low * 0.999 && step <= high * 1.001);
}

function make_scale(points, width, is_log) {
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const [first, last] = [Math.min(...xs), Math.max(...xs)];
  let [low, high] = [Math.min(...ys), Math.max(...ys)];
  if (low === high) {
    [low, high] = is_log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
  } else if (!is_log) {
    low = Math.min(low, Math.max(0, low - (high - low) * 0.05));
    high += (high - low) * 0.05;
  }
  const lift = is_log ? Math.log : (value) => value;
  const part = (y) => (lift(y) - lift(low)) / (lift(high) - lift(low));
  return {
    x: (x) => LEFT + ((x - first) / (last - first || 1)) * (width - LEFT - RIGHT),
    y: (y) => HEIGHT - BOTTOM - part(y) * (HEIGHT - TOP - BOTTOM),
    across: round_steps(first, last, Math.max(4, Math.floor(width / 120))),
    up: is_log ? log_steps(low, high) : round_steps(low, high, 6),
  };
}

function make_axes(scale, width, show) {
  const axes = svg("g");
  for (const y of scale.up) {
    const at = scale.y(y).toFixed(1);
    axes.append(
      svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: at, y2: at }),
      svg("text", { class: "soft end", x: LEFT - 8, y: Number(at) + 4 }, show(y)),
    );
  }
  for (const x of scale.across.filter((step) => scale.x(step) < width - 80)) {
    const edge = scale.x(x) < LEFT + 16 ? "" : "middle";
    const at = scale.x(x).toFixed(1);
    axes.append(svg("text", { class: `soft ${edge}`, x: at, y: HEIGHT - 8 }, number(x)));
  }
  axes.append(svg("text", { class: "soft end", x: width - RIGHT, y: HEIGHT - 8 }, "version"));
  return axes;
}

export class Chart {
  #parent;
  #name;
  #show;
  #is_log = false;
  #points = [];
  #scale = null;
  #chosen = null; // index of the point that is looked at
  #mark = null;

  // `show` makes text of a value.
  constructor(parent, name, show = number) {
    this.#parent = parent;
    this.#name = name;
    this.#show = show;
    parent.tabIndex = 0;
    parent.setAttribute("role", "img");
    parent.addEventListener("pointermove", (event) => this.#point_at(event));
    parent.addEventListener("pointerleave", () => this.#choose(null));
    parent.addEventListener("blur", () => this.#choose(null));
    parent.addEventListener("keydown", (event) => this.#step(event));
  }

  set_log(is_log) {
    this.#is_log = is_log;
    this.draw(this.#points);
  }

  // Points are [version, value]; what is not a number is passed over.
  draw(points) {
    this.#points = points;
    const seen = this.#seen();
    const width = Math.max(200, this.#parent.clientWidth);
    if (this.#chosen !== null && this.#chosen >= seen.length) {
      this.#chosen = null;
    }
    if (seen.length === 0) {
      this.#scale = null;
      this.#parent.setAttribute("aria-label", `${this.#name}: nothing yet`);
      this.#parent.replaceChildren(html("p", { class: "nothing" }, "Nothing was reported yet."));
      return;
    }
    this.#scale = make_scale(seen, width, this.#is_log);
    const line = seen.map(([x, y]) => `${this.#scale.x(x).toFixed(1)},${this.#scale.y(y).toFixed(1)}`);
    this.#mark = svg("g");
    this.#parent.setAttribute("aria-label", this.#describe(seen));
    this.#parent.replaceChildren(
      svg(
        "svg",
        { height: HEIGHT, "aria-hidden": "true" },
        make_axes(this.#scale, width, this.#show),
        svg("polyline", { class: "curve", points: line.join(" ") }),
        ...(seen[0][0] === seen.at(-1)[0] ? [this.#dot(seen.at(-1))] : []), // no line is seen
        this.#mark,
      ),
    );
    this.#choose(this.#chosen);
  }

  #dot([version, value]) {
    const at = { cx: this.#scale.x(version), cy: this.#scale.y(value) };
    return svg("circle", { class: "dot", r: 5, ...at });
  }

  #seen() {
    return this.#points.filter(
      ([x, y]) => Number.isFinite(x) && Number.isFinite(y) && (!this.#is_log || y > 0),
    );
  }

  #describe(seen) {
    const [first, last] = [seen[0], seen[seen.length - 1]];
    return (
      `${this.#name}: ${this.#show(first[1])} at version ${number(first[0])}, ` +
      `${this.#show(last[1])} at version ${number(last[0])}`
    );
  }

  #point_at(event) {
    if (!this.#scale) {
      return;
    }
    const x = event.clientX - this.#parent.getBoundingClientRect().left;
    const distances = this.#seen().map(([version]) => Math.abs(this.#scale.x(version) - x));
    this.#choose(distances.indexOf(Math.min(...distances)));
  }

  #step(event) {
    const last = this.#seen().length - 1;
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined || last < 0) {
      return;
    }
    event.preventDefault();
    this.#choose(this.#chosen === null ? last : Math.min(last, Math.max(0, this.#chosen + by)));
  }

  #choose(index) {
    this.#chosen = index;
    const point = index === null ? undefined : this.#seen()[index];
    if (!this.#scale || !point) {
      this.#mark?.replaceChildren();
      return;
    }
    const [x, y] = [this.#scale.x(point[0]), this.#scale.y(point[1])];
    const text = `${this.#show(point[1])} at ${number(point[0])}`;
    const width = 16 + 7 * text.length;
    const left = Math.min(Math.max(LEFT, x - width / 2), this.#parent.clientWidth - width);
    const above = y - 36 < 0 ? y + 12 : y - 36;
    this.#mark.replaceChildren(
      svg("line", { class: "cursor", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }),
      svg("circle", { class: "dot", cx: x, cy: y, r: 5 }),
      svg("rect", { class: "flag", x: left, y: above, width, height: 24, rx: 4 }),
      svg("text", { class: "on-flag middle", x: left + width / 2, y: above + 16 }, text),
    );
  }
}
