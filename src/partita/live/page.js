"use strict";
// Asks again so long after each answer, in milliseconds: a little more than twice a second.
const WAIT_MS = 440;
const NOTHING = "–";
const MOST_EVENTS = 20;
let plan = null;
let stages = [];
// The last snapshot, why there is none at present, and what the page alone can tell: it goes on
// while a service is started again.
let last = null;
let silence = "";
const notes = [];

const at = (id) => document.getElementById(id);

function make(tag, text, look) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (look) node.className = look;
  return node;
}

function scaled(value, units) {
  for (const [unit, factor] of units) {
    if (Math.abs(value) >= factor) return `${Number((value / factor).toPrecision(3))} ${unit}`;
  }
  const [unit, factor] = units[units.length - 1];
  return `${Number((value / factor).toPrecision(3))} ${unit}`;
}

const seconds = (s) => (s === null ? NOTHING : scaled(s, [["s", 1], ["ms", 1e-3], ["us", 1e-6]]));
const bytes = (n) => scaled(n, [["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["B", 1]]);
const rate = (n) => scaled(8 * n, [["Gbit/s", 1e9], ["Mbit/s", 1e6], ["kbit/s", 1e3], ["bit/s", 1]]);
const number = (x) => (x === null ? NOTHING : String(Number(x.toPrecision(3))));
const percent = (x) => (x === null ? NOTHING : `${Math.round(100 * x)} %`);

// A share from 0 to 1 as a bar, with a mark where it was predicted to end.
function bar(share, expected, look) {
  const box = make("div", undefined, `bar ${look}`);
  const fill = make("i");
  fill.style.width = `${100 * Math.min(share, 1)}%`;
  box.append(fill);
  if (expected !== null) {
    const mark = make("b");
    mark.style.left = `calc(${100 * Math.min(expected, 1)}% - 1px)`;
    box.append(mark);
    box.title = `predicted: ${percent(expected)}`;
  }
  return box;
}

function withBar(words, share, expected, look) {
  const cell = make("td");
  const row = make("div", undefined, "number");
  if (share !== null) row.append(bar(share, expected, look));
  row.append(make("span", words));
  cell.append(row);
  return cell;
}

function tile(name, value, expected) {
  const box = make("div");
  const shown = make("dd", value);
  if (expected) shown.append(" ", make("small", `predicted ${expected}`));
  box.append(make("dt", name), shown);
  return box;
}

function showTiles(now) {
  const known = now.expected;
  const is_alone = now.in_flight === 1;
  at("tiles").replaceChildren(
    tile("images per second", number(now.images_per_s), known && number(known.images_per_s)),
    tile("latency, median", seconds(now.p50_s), known && seconds(known.p50_s)),
    tile("latency, 99 of 100", seconds(now.p99_s), known && seconds(known.p99_s)),
    tile("answered", String(now.answers)),
    tile(is_alone ? "under way" : `under way, of ${now.in_flight}`, String(now.open)),
    tile("waiting", String(now.waiting)),
  );
}

function showAdvice(now) {
  at("advice").replaceChildren(...now.advice.map((text) => make("p", `${text}.`)));
}

function showDevices(now) {
  const head = make("tr");
  head.append(...["device", "busy", "queue", "memory"].map((name) => make("th", name)));
  for (const stage of stages) {
    const cell = make("th", stage.name, "stage");
    if (stage.axis !== "none") cell.append(make("small", stage.axis));
    cell.title = stage.layers;
    head.append(cell);
  }
  at("devices").tHead.replaceChildren(head);
  at("devices").tBodies[0].replaceChildren(...now.devices.map(showDevice));
}

function showDevice(device) {
  const row = make("tr", undefined, device.state);
  const name = make("td", device.name);
  name.append(make("small", device.state === "runs" ? device.kind : [device.kind, device.state].filter(Boolean).join(": ")));
  const limit = device.limit_bytes ? device.memory_bytes / device.limit_bytes : null;
  row.append(
    name,
    withBar(percent(device.busy), device.busy, device.expected, "compute"),
    make("td", device.state === "runs" ? device.queue.toFixed(2) : NOTHING),
    withBar(device.memory_bytes ? bytes(device.memory_bytes) : NOTHING, limit, null, "memory"),
  );
  for (const stage of stages) row.append(showShare(stage.shares[device.name]));
  // Where there is no room for columns, each cell says what it is.
  const names = ["", "busy", "queue", "memory", ...stages.map((stage) => stage.name)];
  [...row.cells].forEach((cell, n) => { if (names[n]) cell.dataset.name = names[n]; });
  return row;
}

// A device's part of a stage: the larger, the darker.
function showShare(words) {
  const cell = make("td", words || "", "stage");
  if (words) {
    const found = /(\d+) %/.exec(words);
    const share = found ? Number(found[1]) / 100 : 1;
    const depth = Math.round(12 + 48 * share);
    cell.style.background = `color-mix(in srgb, var(--compute) ${depth}%, transparent)`;
  }
  return cell;
}

function showLinks(now) {
  const more = now.link_count > now.links.length ? `, the ${now.links.length} busiest of ${now.link_count}` : "";
  at("links-title").textContent = `Links${more}`;
  at("links").tBodies[0].replaceChildren(
    ...now.links.map((link) => {
      const row = make("tr");
      row.append(
        make("td", `${link.source} → ${link.target}`),
        withBar(percent(link.load), link.load, link.expected, "send"),
        make("td", rate(link.bytes_per_s)),
      );
      return row;
    }),
  );
}

// What changes would gain, over the plan as it is: that was simulated before the run.
function showGains(gains) {
  const times = (x) => (x === null ? NOTHING : `${x.toFixed(2)}×`);
  at("gains-section").hidden = gains.length === 0;
  at("gains").tBodies[0].replaceChildren(
    ...gains.map((gain) => {
      const row = make("tr");
      row.append(make("td", gain.name), make("td", times(gain.gain)), make("td", times(gain.most_gain)));
      return row;
    }),
  );
}

function note(text) {
  notes.unshift({ at_ms: performance.now(), text });
  notes.length = Math.min(notes.length, MOST_EVENTS);
}

function showEvents(now) {
  const told = now.events.map((event) => ({ age: Math.max(0, now.at_s - event.at_s), text: event.text }));
  const own = notes.map((each) => ({ age: (performance.now() - each.at_ms) / 1000, text: each.text }));
  const shown = [...own, ...told].sort((a, b) => a.age - b.age).slice(0, MOST_EVENTS);
  const rows = shown.map((event) => {
    const row = make("li");
    row.append(make("time", `${seconds(event.age)} ago`), event.text);
    return row;
  });
  at("events").replaceChildren(...(rows.length ? rows : [make("li", "none so far")]));
}

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

async function show() {
  const now = await ask("live.json");
  if (now.plan !== plan) {
    const made = await ask("plan.json");
    stages = made.stages;
    showGains(made.gains);
    at("about").textContent = made.about;
    at("title").textContent = document.title = made.title;
    plan = now.plan;
  }
  if (silence) note(last && now.answers < last.answers ? "news again: the service was started anew" : "news again");
  silence = "";
  last = now;
  showTiles(now);
  showAdvice(now);
  showDevices(now);
  showLinks(now);
  showEvents(now);
  at("state").textContent = now.down ? `down: ${now.down}` : "live";
  at("state").className = now.down ? "bad" : "good";
}

async function follow() {
  try {
    await show();
  } catch (error) {
    if (last && !silence) note(`no news: ${error.message}`);
    silence = error.message;
    if (last) showEvents(last);
    at("state").textContent = `no news: ${error.message}`;
    at("state").className = "bad";
  }
  setTimeout(follow, WAIT_MS);
}

follow();
