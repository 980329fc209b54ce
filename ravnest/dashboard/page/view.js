// What the server says, as elements: header, jobs, the chosen job, providers, lines.

import { clock, duration, find, html, keep, number, set_attribute, set_text } from "/dom.js";
import { draw_clusters } from "/picture.js";

const ACTIVE = ["preparing", "running", "ending"];
const OVER = ["done", "failed", "cancelled"];

export function is_over(job) {
  return OVER.includes(job.phase);
}

// What a job's leaves report, taken together.
export function progress(job) {
  const ends = job.clusters.map((cluster) => cluster.stages.at(-1)?.report).filter(Boolean);
  const reports = job.clusters.flatMap((cluster) => cluster.stages.map((stage) => stage.report));
  const losses = ends.map((report) => report.loss).filter(Number.isFinite);
  if (ends.length === 0) {
    return null;
  }
  return {
    version: Math.max(...ends.map((report) => report.version)),
    rate: ends.reduce((sum, report) => sum + (report.samples_per_second ?? 0), 0),
    loss: losses.length > 0 ? losses.reduce((sum, loss) => sum + loss, 0) / losses.length : NaN,
    delay: Math.max(...reports.map((report) => report?.delay ?? 0)),
  };
}

// Those at work first, then the latest.
export function in_order(jobs) {
  const rank = (job) => (ACTIVE.includes(job.phase) ? 0 : is_over(job) ? 2 : 1);
  return [...jobs].sort((a, b) => rank(a) - rank(b) || b.id - a.id);
}

function set_state(node, word) {
  set_text(node, word);
  set_attribute(node, "class", `state ${word}`);
}

export function show_facts(state, since) {
  const present = state.providers.filter((provider) => provider.presence === "present").length;
  const running = state.jobs.filter((job) => job.phase === "running").length;
  const facts = [
    ["present", present, ` of ${state.providers.length} providers present`],
    ["running", running, running === 1 ? " job running" : " jobs running"],
  ];
  if (since) {
    facts.unshift(["up", duration(state.server.now - since), " up"]);
  }
  keep(
    find("facts"),
    facts,
    ([key]) => key,
    () => html("li", {}, html("b"), html("span")),
    (item, [, value, words]) => {
      set_text(item.children[0], value);
      set_text(item.children[1], words);
    },
  );
  set_attribute(find("facts"), "title", `Start ${state.server.boot} of this server`);
}

function make_card(choose) {
  const title = html("span", { class: "title" }, html("span", { class: "name" }), html("span"));
  const button = html(
    "button",
    { type: "button", class: "card" },
    title,
    html("span", { class: "reason" }),
    html("span", { class: "figures" }),
  );
  const item = html("li", {}, button);
  button.addEventListener("click", () => choose(Number(item.dataset.key)));
  return item;
}

function update_card(item, job, chosen) {
  const [button] = item.children;
  const [title, reason, figures] = button.children;
  const now = progress(job);
  set_attribute(button, "aria-current", job.id === chosen);
  set_text(title.children[0], job.name || `job ${job.id}`);
  set_state(title.children[1], job.phase);
  set_text(reason, job.reason);
  const parts = now
    ? [
        ["version", number(now.version)],
        ["samples/s", number(now.rate)],
        ["loss", number(now.loss)],
      ]
    : [];
  keep(
    figures,
    parts,
    ([name]) => name,
    () => html("span", {}, html("span"), html("b")),
    (part, [name, value]) => {
      set_text(part.children[0], `${name} `);
      set_text(part.children[1], value);
    },
  );
}

export function show_jobs(jobs, chosen, choose) {
  find("no-jobs").hidden = jobs.length > 0;
  keep(
    find("jobs"),
    in_order(jobs),
    (job) => job.id,
    () => make_card(choose),
    (item, job) => update_card(item, job, chosen),
  );
}

function facts_of(job, accuracy) {
  const now = progress(job);
  const restore = job.restore_point;
  const facts = [];
  if (now) {
    facts.push(
      ["Version", number(now.version), ""],
      ["Samples/s", number(now.rate), job.clusters.length > 1 ? "all clusters" : ""],
      ["Loss", number(now.loss), ""],
    );
  }
  if (accuracy !== undefined) {
    facts.push(["Accuracy", `${number(accuracy)} %`, ""]);
  }
  if (now) {
    facts.push(["Delay", number(now.delay), "updates, at most"]);
  }
  const of_cluster = restore ? `version, of cluster ${restore.cluster}` : "";
  facts.push(["Restore point", restore ? number(restore.version) : "none", of_cluster]);
  return facts;
}

function origin_of(job) {
  const took = `, took ${duration(job.ended_at - job.submitted_at)}`;
  const feed = job.is_fed ? ", who feeds it" : ", who is away";
  return `Job ${job.id} of ${job.requester || "somebody"}${is_over(job) ? "" : feed}, submitted ${clock(job.submitted_at)}${is_over(job) ? took : ""}`;
}

// `details` is what /api/jobs says of it, null until it has come.
export function show_job(job, details, providers) {
  const accuracy = details?.accuracy?.at(-1)?.[1];
  const title = find("job-title");
  if (title.children.length === 0) {
    title.append(html("span"), html("span"));
  }
  set_text(title.children[0], job.name || `job ${job.id}`);
  set_state(title.children[1], job.phase);
  set_text(find("job-reason"), job.reason);
  set_text(find("job-origin"), origin_of(job));
  find("cancel").hidden = is_over(job);
  find("forget").hidden = !is_over(job);
  keep(
    find("stats"),
    facts_of(job, accuracy),
    ([name]) => name,
    () => html("div", {}, html("dt"), html("dd", {}, html("span"), html("small"))),
    (item, [name, value, more]) => {
      set_text(item.children[0], name);
      set_text(item.children[1].children[0], value);
      set_text(item.children[1].children[1], more);
    },
  );
  find("clusters-part").hidden = job.clusters.length === 0;
  const lent = new Map(providers.map((provider) => [provider.id, provider.ram_gb * 1e9]));
  draw_clusters(find("clusters"), job.clusters, lent);
  show_lines(find("notes"), details?.notes ?? job.notes);
}

// The latest first.
export function show_lines(parent, notes) {
  const times = new Map(); // the same may be said twice in a second
  const keyed = notes.map((note) => {
    const words = `${note.at} ${note.text}`;
    times.set(words, (times.get(words) ?? 0) + 1);
    return { ...note, key: `${times.get(words)} ${words}` };
  });
  keep(
    parent,
    keyed.reverse(),
    (note) => note.key,
    (note) => {
      const at = new Date(note.at * 1000);
      const time = html("time", { datetime: at.toISOString(), title: at.toLocaleString("en-GB") });
      return html("li", {}, time, html("span"));
    },
    (item, note) => {
      set_text(item.children[0], clock(note.at));
      set_text(item.children[1], note.text);
    },
  );
}

function place_of(provider, jobs) {
  if (!provider.place) {
    return provider.presence === "present" && !provider.is_paused ? "free" : "";
  }
  const job = jobs.find((each) => each.id === provider.place.job);
  return `${job?.name || `job ${provider.place.job}`}, cluster ${provider.place.cluster}, stage ${provider.place.stage}`;
}

// Under what heading, how it is shown, how it looks.
const COLUMNS = [
  ["Place", (provider, jobs) => place_of(provider, jobs), "wide"],
  ["GFLOPS", (provider) => provider.gflops && number(provider.gflops), "number"],
  ["RAM, GB", (provider) => provider.ram_gb && number(provider.ram_gb), "number"],
  ["Mbit/s", (provider) => provider.mbps && number(provider.mbps), "number"],
  ["Latency, ms", (provider) => provider.mbps && number(provider.latency_ms), "number"],
  ["Link", (provider) => provider.address && (provider.is_relayed ? "⇄ relayed" : "direct"), "link-kind"],
];

// What was measured between providers, a line for each peer, by their ids. Either of two may tell of it.
function lines_of_links(providers) {
  const lines = new Map(providers.map((provider) => [provider.id, new Map()]));
  for (const provider of providers) {
    for (const link of provider.links) {
      const speed = `${number(link.mbps)} Mbit/s, ${number(link.latency_ms)} ms`;
      lines.get(provider.id).set(link.provider, `${link.name}: ${speed}`);
      lines.get(link.provider)?.set(provider.id, `${provider.name}: ${speed}`);
    }
  }
  return lines;
}

function make_provider(wish) {
  const row = html("tr");
  const button = (kind) => {
    const node = html("button", { type: "button", "data-wish": kind });
    node.addEventListener("click", () => wish(row.dataset.key, row.shown_name, node.dataset.wish));
    return node;
  };
  row.append(
    html("th", { scope: "row" }, html("span"), html("span", { class: "chip" })),
    html("td", { class: "presence" }, html("span")),
    ...COLUMNS.map(([label, , look]) => html("td", { "data-label": label, class: look })),
    html("td", { "data-label": "Strikes" }),
    html("td", { class: "owner-only wide" }, html("div", { class: "tools" }, button("pause"), button("remove"))),
  );
  return row;
}

function update_provider(row, provider, jobs, links) {
  const [head, presence, ...rest] = row.children;
  const [pause, remove] = row.lastElementChild.firstElementChild.children;
  const name = provider.name || provider.id;
  const chip = provider.is_paused ? "paused" : provider.is_leaving ? "leaves" : "";
  row.shown_name = name;
  set_attribute(row, "title", `${provider.id} ${provider.address}`);
  set_text(head.children[0], name);
  set_text(head.children[1], chip);
  head.children[1].hidden = chip === "";
  set_state(presence.children[0], provider.presence);
  COLUMNS.forEach(([, show], index) => set_text(rest[index], show(provider, jobs) || "–"));
  set_attribute(rest[COLUMNS.length - 1], "title", [...links.values()].join("\n"));
  const strikes = rest[COLUMNS.length];
  const ban = provider.banned_seconds > 0 ? `, banned ${duration(provider.banned_seconds)}` : "";
  set_text(strikes, provider.strikes ? `${provider.strikes}${ban}` : "–");
  set_attribute(pause, "data-wish", provider.is_paused ? "resume" : "pause");
  set_text(pause, provider.is_paused ? "Resume" : "Pause");
  set_attribute(pause, "aria-label", `${pause.textContent} ${name}`);
  set_text(remove, "Remove");
  set_attribute(remove, "aria-label", `Remove ${name}`);
}

export function show_providers(providers, jobs, wish) {
  find("no-providers").hidden = providers.length > 0;
  find("providers-table").hidden = providers.length === 0;
  const links = lines_of_links(providers);
  keep(
    find("providers"),
    providers,
    (provider) => provider.id,
    () => make_provider(wish),
    (row, provider) => update_provider(row, provider, jobs, links.get(provider.id)),
  );
}
