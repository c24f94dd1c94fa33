"use strict";
(() => {
  const stops = (first, numbers) => [{ value: "", text: first }, ...numbers.map((n) => ({ value: String(n), text: String(n) }))];
  const rates = [1, 1.25, 1.6, 2, 2.5, 3.2, 4, 5, 6.3, 8, 10, 12.5, 16, 20, 25, 32, 40, 50, 63, 80, 100, 125, 160, 200, 250,
    320, 400, 500, 630, 800, 1000, 1250, 1600, 2000, 2500, 3200];
  const kRate = [{ value: "", text: "as built" }, ...rates.map((r) => ({ value: `${r} Gb/s`, text: `${r} Gb/s` }))];
  const counts = [2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 192, 256, 384, 512, 768, 1024];
  const powers = (most) => { const all = []; for (let n = 2; n <= most; n *= 2) all.push(n); return all; };
  const batches = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096];
  // In the order of the page; `flag` is the command's. An empty value is the command's default.
  const kKnobs = [
    { path: "model", label: "Model", list: "models", flag: "--model" },
    { path: "node", label: "Server", list: "nodes", flag: "--node" },
    { path: "nodes", label: "Servers", stops: stops("1", counts), flag: "--nodes" },
    { path: "network", label: "Network", stops: kRate, flag: "--network" },
    { path: "strategy", label: "Strategy", list: "strategies", none: "the model's own", flag: "--strategy" },
    { path: "precision", label: "Precision", words: ["fp32", "tf32", "fp16", "bf16", "fp8"], none: "the model's own", flag: "--precision" },
    { path: "batch", label: "Batch per GPU", stops: stops("the model's", batches), flag: "--batch" },
    { path: "parallel.tensor", label: "Tensor parallel", stops: stops("1", powers(64)), flag: "--tp" },
    { path: "parallel.pipeline", label: "Pipeline stages", stops: stops("1", powers(64)), flag: "--pp" },
    { path: "price", label: "Price of a server", hint: "as 12 $/h", flag: "--price" },
  ];
  const kParts = [["compute", "GPU compute"], ["memory", "GPU memory"], ["launch", "kernel launches"], ["input_exposed", "waiting for input"],
    ["communication_exposed", "exposed communication"], ["bubble", "pipeline bubble"], ["other", "other"]];
  const kStart = { model: "resnet50", node: "dgx1-v100", nodes: "4", network: "25 Gb/s" };

  const by = (id) => document.getElementById(id);
  const make = (tag, text, name) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (name) element.className = name;
    return element;
  };

  // Four digits, in a sensible unit.
  const digits = (x) => (x === 0 ? "0" : x >= 1000 && x < 1e15 ? Math.round(x).toString() : Number(x.toPrecision(4)).toString());
  const scaled = (x, units) => {
    const fit = units.find(([size]) => x >= size) || units[units.length - 1];
    return `${digits(x / fit[0])} ${fit[1]}`;
  };
  const timeText = (s) => (s === 0 ? "0 s" : scaled(s, [[3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]]));
  const bytesText = (b) => scaled(b, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
  const percent = (x) => (x > 0 && x < 0.0005 ? "< 0.1 %" : `${(100 * x).toFixed(1)} %`);
  const money = (x) => `${x < 0.01 ? x.toPrecision(2) : x.toFixed(2)} $`;

  const say = (text) => { by("said").textContent = text; };
  const copy = async (text, what) => {
    try {
      await navigator.clipboard.writeText(text);
      say(`${what} copied`);
    } catch {
      say(`copy it by hand: ${text}`);
    }
  };

  let catalog = null;
  const jobs = [];

  // What the server needs, where it needs it.
  const token = () => { try { return sessionStorage.getItem("token") || ""; } catch { return ""; } };
  const ask = async (path, body) => {
    const headers = {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (token()) headers.Authorization = `Bearer ${token()}`;
    const response = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body });
    if (response.status === 401) by("door").hidden = false;
    const answer = await response.json();
    return { ok: response.ok, answer };
  };

  const quoted = (word) => (/^[A-Za-z0-9_.,:=\/+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

  class Job {
    constructor(name) {
      this.name = name;
      this.values = {};
      this.more = "";
      this.busy = false;
      this.wanted = false;
      this.prediction = null;
      this.section = by("job").content.firstElementChild.cloneNode(true);
      this.section.setAttribute("aria-label", `job ${name}`);
      this.section.querySelector("h2").textContent = `Job ${name}`;
      this.knobs = new Map();
      const form = this.section.querySelector(".knobs");
      for (const knob of kKnobs) form.append(this.build(knob));
      form.append(this.build({ path: "more", label: "More settings", lines: true }));
      form.addEventListener("submit", (event) => event.preventDefault());
      this.section.querySelector(".copy").addEventListener("click", () => copy(this.command(), "command"));
    }

    build(knob) {
      const row = make("div", undefined, "knob");
      const label = make("label");
      label.append(make("span", knob.label));
      let input;
      let shown = null;
      if (knob.stops) {
        input = make("input");
        input.type = "range";
        input.min = "0";
        input.max = String(knob.stops.length - 1);
        input.step = "1";
        shown = make("output");
      } else if (knob.lines) {
        input = make("textarea");
        input.placeholder = "input.dataset = imagenet";
        input.spellcheck = false;
      } else if (knob.hint) {
        input = make("input");
        input.type = "text";
        input.placeholder = knob.hint;
      } else {
        input = make("select");
      }
      if (!shown) label.className = "wide";
      input.name = knob.path;
      const error = make("p", "", "error");
      error.id = `${this.name}-${knob.path}-error`;
      input.setAttribute("aria-describedby", error.id);
      label.append(input);
      if (shown) label.append(shown);
      row.append(label, error);
      const own = { knob, input, shown, error, stops: knob.stops };
      this.knobs.set(knob.path, own);
      input.addEventListener("input", () => {
        if (knob.lines) this.more = input.value;
        else this.values[knob.path] = own.stops ? own.stops[Number(input.value)].value : input.value.trim();
        this.show(own);
        changed(this);
      });
      return row;
    }

    // Puts the value of a knob onto the page.
    show(own) {
      const { knob, input, shown } = own;
      if (knob.lines) {
        if (input.value !== this.more) input.value = this.more;
        return;
      }
      const value = this.values[knob.path] || "";
      if (own.stops) {
        let at = own.stops.findIndex((stop) => stop.value === value);
        if (at < 0) { // a value of a link that is no stop gets one
          own.stops = [...own.stops, { value, text: value }];
          at = own.stops.length - 1;
          input.max = String(at);
        }
        input.value = String(at);
        shown.textContent = own.stops[at].text;
        input.setAttribute("aria-valuetext", own.stops[at].text);
      } else if (input.tagName === "SELECT") {
        if (![...input.options].some((option) => option.value === value)) input.append(new Option(value || knob.none, value));
        input.value = value;
      } else if (document.activeElement !== input) {
        input.value = value;
      }
    }

    fillLists() {
      for (const own of this.knobs.values()) {
        const { knob, input } = own;
        if (input.tagName !== "SELECT") continue;
        const rows = knob.words ? knob.words.map((word) => ({ name: word, what: "" })) : (catalog && catalog[knob.list]) || [];
        const options = rows.map((row) => new Option(row.what && row.what !== row.name ? `${row.name}: ${row.what}` : row.name, row.name));
        if (knob.none) options.unshift(new Option(knob.none, ""));
        input.replaceChildren(...options);
        this.show(own);
      }
    }

    showAll() { for (const own of this.knobs.values()) this.show(own); }

    // Path and value of what is stated, and the knob that says so.
    settings() {
      const all = [];
      for (const { path } of kKnobs) if (this.values[path]) all.push([path, this.values[path], path]);
      for (const line of this.more.split("\n")) {
        const equals = line.indexOf("=");
        if (equals > 0) all.push([line.slice(0, equals).trim(), line.slice(equals + 1).trim(), "more"]);
        else if (line.trim()) all.push([line.trim(), "", "more"]);
      }
      return all;
    }

    // One setting a line: the line of an error says whose it is.
    request() { return `{\n${this.settings().map(([path, value]) => `${JSON.stringify(path)}: ${JSON.stringify(value)}`).join(",\n")}\n}`; }

    command() {
      const words = ["ddlsim", "predict"];
      for (const [path, value, from] of this.settings()) {
        const knob = kKnobs.find((one) => one.path === path);
        if (from !== "more" && knob) words.push(knob.flag, quoted(value));
        else words.push("--set", quoted(`${path}=${value}`));
      }
      return words.join(" ");
    }

    // At most one question in flight: what changes meanwhile is asked once, when the answer is there. Browsers tell of a
    // drag once a frame, so nothing waits for frames here: an answer that is a little late costs none.
    async ask() {
      this.section.querySelector(".command code").textContent = this.command();
      if (this.busy) { this.wanted = true; return; }
      this.busy = true;
      do {
        this.wanted = false;
        const asked = this.settings();
        try {
          const { ok, answer } = await ask("/v1/predict", this.request());
          if (ok) this.take(answer); else this.refuse(answer, asked);
        } catch {
          this.refuse({ error: "the server does not answer", notes: [] }, asked);
        }
      } while (this.wanted);
      this.busy = false;
    }

    clearErrors() {
      for (const { input, error } of this.knobs.values()) {
        error.textContent = "";
        input.removeAttribute("aria-invalid");
      }
      this.section.querySelector(".whole").textContent = "";
    }

    refuse(problem, asked) {
      this.clearErrors();
      this.section.querySelector(".answer").classList.add("stale");
      for (const one of [problem, ...(problem.also || [])]) {
        const text = [one.error, ...(one.notes || []).slice(0, 2)].join("; ");
        const line = one.line ? asked[one.line - 2] : asked.find(([path]) => String(one.error).startsWith(`${path}: `));
        const own = line && this.knobs.get(line[2]);
        if (own) {
          own.error.textContent = text;
          own.input.setAttribute("aria-invalid", "true");
        } else {
          const whole = this.section.querySelector(".whole");
          whole.textContent = whole.textContent ? `${whole.textContent}; ${text}` : text;
        }
      }
      this.prediction = null;
      verdict();
    }

    take(answer) {
      this.clearErrors();
      this.prediction = answer.prediction;
      this.section.querySelector(".answer").classList.remove("stale");
      this.section.querySelector(".answer").title = answer.title;
      draw();
    }

    draw(longest) {
      const p = this.prediction;
      if (!p) return;
      const find = (name) => this.section.querySelector(name);
      find(".time").textContent = timeText(p.step_time_s);
      find(".interval").textContent = `90 % interval ${timeText(p.interval_90_s[0])} to ${timeText(p.interval_90_s[1])}`;
      const parts = kParts.map(([key, words]) => [key, words, p.breakdown_s[key] || 0]).filter(([, , time]) => time > 0);
      const share = (time) => `${(100 * time) / longest}%`;
      find(".bar").replaceChildren(...parts.map(([key, words, time]) => {
        const piece = make("span", undefined, key);
        piece.style.width = share(time);
        piece.title = `${words}: ${timeText(time)}`;
        return piece;
      }));
      find(".bar").setAttribute("aria-label", parts.map(([, words, time]) => `${words} ${timeText(time)}`).join(", "));
      const band = make("i");
      band.style.left = share(p.interval_90_s[0]);
      band.style.width = share(Math.min(p.interval_90_s[1], longest) - p.interval_90_s[0]);
      find(".band").replaceChildren(band);
      find(".legend").replaceChildren(...parts.map(([key, words, time]) => {
        const row = make("li");
        row.append(make("i", undefined, key), make("span", words), make("b", `${timeText(time)} (${percent(time / p.step_time_s)})`));
        return row;
      }));
      this.facts(p, find(".facts"));
      find(".notes ul").replaceChildren(...p.notes.map((note) => make("li", note)));
    }

    facts(p, list) {
      const rows = [
        ["bound by", p.bottleneck],
        ["throughput", `${digits(p.throughput_samples_per_s)} ${p.sample}s/s on ${p.gpus} GPU${p.gpus === 1 ? "" : "s"}`],
        ["scaling", `${percent(p.scaling_efficiency)} of linear; MFU ${percent(p.mfu)}`],
        ["memory per GPU", `${bytesText(p.memory.device_bytes)} of ${bytesText(p.memory.capacity_bytes)}${p.fits === false ? ": does not fit" : ""}`, p.fits === false],
      ];
      if (p.price_usd_per_h !== undefined) {
        const million = (p.price_usd_per_h / 3600 / p.throughput_samples_per_s) * 1e6;
        rows.push(["cost", `${money(p.price_usd_per_h)}/h; ${money(million)} a million ${p.sample}s`]);
      } else {
        rows.push(["cost", "nobody says what a server costs"]);
      }
      if (p.training) rows.push(["run", `${timeText(p.training.time_s)}${p.training.cost_usd === null ? "" : `, ${money(p.training.cost_usd)}`}`]);
      rows.push(["trust", p.provenance]);
      list.replaceChildren(...rows.flatMap(([key, value, bad]) => [make("dt", key), make("dd", value, bad ? "bad" : "")]));
    }
  }

  const shownJobs = () => (by("compare").checked ? jobs : jobs.slice(0, 1));

  // Both jobs on one scale.
  function draw() {
    const ends = shownJobs().filter((job) => job.prediction).map((job) => Math.max(job.prediction.step_time_s * 1.02, job.prediction.interval_90_s[1]));
    for (const job of shownJobs()) job.draw(Math.max(...ends));
    verdict();
  }

  function verdict() {
    const [a, b] = shownJobs().map((job) => job.prediction);
    let text = "";
    if (a && b) {
      const ratio = b.throughput_samples_per_s / a.throughput_samples_per_s;
      text = ratio === 1 ? "B is as fast as A." : `B has ${digits(ratio)} times the throughput of A.`;
      if (a.price_usd_per_h && b.price_usd_per_h) {
        text += ` A sample costs ${digits((b.price_usd_per_h / a.price_usd_per_h) / ratio)} times as much.`;
      }
    }
    by("verdict").textContent = text;
  }

  // The address holds the jobs.
  function toAddress() {
    const words = new URLSearchParams();
    for (const job of shownJobs()) {
      for (const { path } of kKnobs) if (job.values[path]) words.append(`${job.name}.${path}`, job.values[path]);
      if (job.more.trim()) words.append(`${job.name}.more`, job.more);
    }
    return `#${words}`;
  }

  function fromAddress() {
    const words = new URLSearchParams(location.hash.slice(1));
    by("compare").checked = [...words.keys()].some((key) => key.startsWith("B."));
    for (const job of jobs) {
      const own = [...words].filter(([key]) => key.startsWith(`${job.name}.`)).map(([key, value]) => [key.slice(2), value]);
      const stated = own.length > 0 ? own : Object.entries(kStart);
      job.values = {};
      job.more = "";
      for (const [path, value] of stated) {
        if (path === "more") job.more = value;
        else if (kKnobs.some((knob) => knob.path === path)) job.values[path] = value;
      }
      job.showAll();
    }
  }

  let written = 0; // browsers let a page write its address some hundred times in half a minute
  function changed(job) {
    job.ask();
    clearTimeout(written);
    written = setTimeout(() => history.replaceState(null, "", toAddress()), 150);
  }

  function arrange() {
    const main = by("jobs");
    main.classList.toggle("two", by("compare").checked);
    main.replaceChildren(...shownJobs().map((job) => job.section));
    verdict();
  }

  async function start() {
    for (const job of shownJobs()) job.ask();
    if (catalog) return;
    const { ok, answer } = await ask("/v1/catalog");
    if (!ok) return;
    catalog = answer;
    for (const job of jobs) job.fillLists();
    by("settings").querySelector("tbody").replaceChildren(...catalog.settings.map((setting) => {
      const row = make("tr");
      row.append(make("td", setting.path), make("td", setting.meaning), make("td", setting.example));
      return row;
    }));
  }

  jobs.push(new Job("A"), new Job("B"));
  for (const job of jobs) job.fillLists();
  fromAddress();
  arrange();
  by("compare").addEventListener("change", () => {
    if (by("compare").checked) { // begins as a copy of the first
      jobs[1].values = { ...jobs[0].values };
      jobs[1].more = jobs[0].more;
      jobs[1].showAll();
      jobs[1].ask();
    }
    arrange();
    draw();
    changed(jobs[0]);
  });
  by("share").addEventListener("click", () => {
    history.replaceState(null, "", toAddress());
    copy(location.href, "link");
  });
  by("door").addEventListener("submit", (event) => {
    event.preventDefault();
    try { sessionStorage.setItem("token", by("token").value); } catch { say("the browser keeps no token"); }
    by("door").hidden = true;
    start();
  });
  addEventListener("hashchange", () => {
    fromAddress();
    arrange();
    for (const job of shownJobs()) job.ask();
  });
  start();
})();
