// Small tools for elements. Values become text nodes and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export function html(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

export function find(id) {
  return document.getElementById(id);
}

// Writes only what differs, so that selections and screen readers are left in peace.
export function set_text(node, text) {
  const wanted = String(text);
  if (node.textContent !== wanted) {
    node.textContent = wanted;
  }
}

export function set_attribute(node, name, value) {
  const wanted = String(value);
  if (node.getAttribute(name) !== wanted) {
    node.setAttribute(name, wanted);
  }
}

// Keeps one child of `parent` for each item, in their order, and brings it up to date. A child whose
// key stays is the same element as before: focus and hover outlive an update.
export function keep(parent, items, key_of, make, update) {
  const before = new Map(Array.from(parent.children, (child) => [child.dataset.key, child]));
  items.forEach((item, index) => {
    const key = String(key_of(item));
    const child = before.get(key) ?? make(item);
    before.delete(key);
    child.dataset.key = key;
    update(child, item);
    if (parent.children[index] !== child) {
      parent.insertBefore(child, parent.children[index] ?? null);
    }
  });
  before.forEach((child) => child.remove());
}

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

// About three digits.
export function number(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) {
    return "–";
  }
  const size = Math.abs(value);
  if (size >= 100 || value === 0) {
    return plain.format(value);
  }
  return size < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

export function memory(bytes) {
  return bytes < 0.95e9 ? `${number(bytes / 1e6)} MB` : `${number(bytes / 1e9)} GB`;
}

export function clock(seconds) {
  const date = new Date(seconds * 1000);
  const is_today = date.toDateString() === new Date().toDateString();
  return is_today
    ? date.toLocaleTimeString("en-GB")
    : date.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) +
        " " +
        date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

export function duration(seconds) {
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (minutes < 1) {
    return `${Math.max(0, Math.floor(seconds))} s`;
  }
  if (hours < 1) {
    return `${minutes} min`;
  }
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}
