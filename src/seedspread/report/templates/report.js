"use strict";
(() => {
  const root = document.documentElement;
  let data = {};
  let plotlyReady = null;
  let watcher = null;
  let kept = {};  // state that the reader gave figures and tables, by id; restored after the page changes in place

  /* The page contains plotly.js, compressed. */
  function loadPlotly() {
    plotlyReady ??= (async () => {
      const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      const script = document.createElement("script");
      script.textContent = await new Response(stream).text();
      document.head.append(script);
    })();
    return plotlyReady;
  }

  /* Give figures the colors of the page. */
  function themed(layout) {
    const style = getComputedStyle(document.body);
    const of = (name) => style.getPropertyValue(name).trim();
    const axis = { gridcolor: of("--grid"), linecolor: of("--line"), tickcolor: of("--line") };
    return {
      ...layout,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: style.fontFamily, size: 12, color: of("--ink") },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: of("--soft"), activecolor: of("--accent") },
      hoverlabel: { bgcolor: of("--card"), bordercolor: of("--line"), font: { color: of("--ink") }, align: "left" },
      xaxis: { ...layout.xaxis, ...axis },
      yaxis: { ...layout.yaxis, ...axis },
    };
  }

  /* Long row names are put above their rows instead of beside them; long names under an axis are broken or rotated. */
  function fitted(layout, width) {
    const longest = (axis) => Math.max(0, ...(axis.ticktext ?? []).flatMap((name) => name.split("<br>")).map((line) => line.length));
    const { xaxis, yaxis } = layout;
    const above = longest(yaxis) > 9 && (width < 430 || longest(yaxis) * 7 > width / 2);
    /* Names are broken into lines if they fit below their marks, and rotated otherwise. */
    const letters = (width - 60) / (xaxis.ticktext?.length ?? 1) / 7;
    const many = (xaxis.ticktext ?? []).join("  ").length * 7 > width - 60 || longest(xaxis) > letters;
    const broken = (text) => text.split(" ").reduce((lines, word) => {
      if (lines.length && `${lines.at(-1)} ${word}`.length <= letters) lines.push(`${lines.pop()} ${word}`);
      else lines.push(word);
      return lines;
    }, []);
    const fits = many && xaxis.ticktext.every((text) => broken(text).every((line) => line.length <= letters + 1));
    const ticks = fits ? { ticktext: xaxis.ticktext.map((text) => broken(text).join("<br>")), tickangle: 0 } : { tickangle: -60 };
    const name = (text, i) => ({
      text: text.length * 6 > width - 50 ? text : text.replaceAll("<br>", ": "), align: "left", x: 0, xref: "paper", xanchor: "left", y: yaxis.tickvals[i], yanchor: "bottom", yshift: 3, showarrow: false, font: { size: 11 }, bgcolor: getComputedStyle(document.body).backgroundColor,
    });
    return {
      ...layout,
      annotations: above ? yaxis.ticktext.map(name) : [],
      xaxis: many ? { ...xaxis, ...ticks } : xaxis,
      yaxis: { ...yaxis, showticklabels: !above },
    };
  }

  const OPTIONS = {
    displaylogo: false, responsive: true, displayModeBar: "hover",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  };
  /* A condition has one name for its button and its traces in every panel. */
  function show(figure) {
    const buttons = [...figure.querySelectorAll(".legend button")];
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(!figure.hiddenNames.has(button.dataset.name)));
      button.classList.toggle("alone", figure.alone === button.dataset.name);
    }
    /* Legend entries of a trace: its own, or, for a group's mean and band, those of all the group's cells. */
    const entries = (trace) => buttons.map((b) => b.dataset.name)
      .filter((name) => name === trace.meta || (trace.meta && name.startsWith(trace.meta + ", ")));
    for (const panel of figure.querySelectorAll(".panel")) {
      if (!panel.data) continue;
      const names = panel.data.map(entries);
      const visible = names.map((own) => !own.length || own.some((n) => !figure.hiddenNames.has(n)));
      const opacity = names.map((own) => (!figure.alone || !own.length || own.includes(figure.alone) ? 1 : 0.1));
      Plotly.restyle(panel, { visible, opacity });
    }
  }

  function toggle(figure, name) {
    if (figure.hiddenNames.has(name)) figure.hiddenNames.delete(name);
    else figure.hiddenNames.add(name);
    show(figure);
  }

  function isolate(figure, name) {
    figure.alone = figure.alone === name ? null : name;
    figure.hiddenNames.clear();
    show(figure);
  }

  function draw(figure) {
    if (figure.drawn) return figure.drawn;
    const chart = data.charts[figure.dataset.chart];
    prepare(figure);
    figure.drawn = loadPlotly().then(() => { if (figure.dataset.drawn !== "yes") drawPanels(figure, chart); });
    return figure.drawn;
  }
  function prepare(figure) {
    figure.hiddenNames = new Set(kept[figure.id]?.hidden);
    figure.alone = kept[figure.id]?.alone ?? null;
  }

  /* Some colors have a counterpart for dark pages. */
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  function tinted(traces, dark) {
    const of = (color) => (dark && data.dark[color]) || color;
    const glass = (hex) => `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},0.18)`;
    return structuredClone(traces).map((trace) => {
      if (trace.line?.color) trace.line.color = of(trace.line.color);
      if (trace.marker) trace.marker.color = of(trace.marker.color);
      if (trace.marker?.line) trace.marker.line.color = getComputedStyle(document.body).backgroundColor;
      if (trace.error_x) trace.error_x.color = of(trace.error_x.color);
      if (trace.fill) trace.fillcolor = glass(trace.line.color);
      return trace;
    });
  }
  function tint(figure, dark) {
    const chart = data.charts[figure.dataset.chart];
    figure.querySelectorAll(".legend button").forEach((button) => {
      const color = (dark && data.dark[button.dataset.color]) || button.dataset.color;
      button.style.setProperty("--color", color);
    });
    figure.querySelectorAll(".panel").forEach((panel, i) => {
      const traces = tinted(chart.panels[i].data, dark);
      Plotly.restyle(panel, {
        "line.color": traces.map((t) => t.line?.color ?? null),
        "marker.color": traces.map((t) => t.marker?.color ?? null),
        "marker.line.color": traces.map((t) => t.marker?.line?.color ?? null),
        "error_x.color": traces.map((t) => t.error_x?.color ?? null),
        fillcolor: traces.map((t) => t.fillcolor ?? null),
      });
    });
  }

  function withZoom(layout, zoom) {
    const held = (name) => ({ ...layout[name], range: zoom[name], autorange: false });
    return zoom ? { ...layout, xaxis: held("xaxis"), yaxis: held("yaxis") } : layout;
  }

  function drawPanels(figure, chart) {
    figure.dataset.drawn = "yes";
    [...figure.querySelectorAll(".panel")].forEach((panel, i) => {
      const layout = fitted(themed(chart.panels[i].layout), panel.clientWidth);
      const zoom = kept[figure.id]?.zoom?.[i];
      Plotly.newPlot(panel, tinted(chart.panels[i].data, isDark()), withZoom(layout, zoom), OPTIONS);
      panel.zoom = zoom ?? null;
      panel.on("plotly_relayout", (event) => {
        const keys = Object.keys(event).join(" ");
        if (/axis\.range/.test(keys)) panel.zoom = { xaxis: [...panel.layout.xaxis.range], yaxis: [...panel.layout.yaxis.range] };
        if (/autorange|resetscale/i.test(keys)) panel.zoom = null;
      });
      panel.on("plotly_click", (event) => {
        const name = event.points[0].data.meta;
        if (name) isolate(figure, name);
      });
    });
    if (figure.alone || figure.hiddenNames.size) show(figure);
    if (isDark()) tint(figure, true);
  }

  const charts = () => [...document.querySelectorAll("figure.chart")];

  function drawWhenSeen() {
    watcher?.disconnect();
    watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
    }, { rootMargin: "400px" });
    charts().forEach((figure) => watcher.observe(figure));
  }

  /* Apply colors and widths; without a width, a panel is as wide as its place. */
  function retheme(width) {
    for (const figure of charts()) {
      if (figure.dataset.drawn !== "yes") continue;
      const chart = data.charts[figure.dataset.chart];
      const fixed = width?.(chart.panels.length);
      figure.querySelectorAll(".panel").forEach((panel, i) => {
        const size = fixed ?? panel.parentElement.clientWidth;
        const layout = fitted(themed(withZoom(chart.panels[i].layout, panel.zoom)), size);
        Plotly.relayout(panel, { ...layout, width: fixed ?? null, autosize: !fixed });
      });
      tint(figure, isDark());
    }
  }

  document.querySelector(".theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    retheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => retheme());

  async function drawAll() { await Promise.all(charts().map(draw)); }

  /* Print all figures in black on white and as wide as a page allows; open all folds except long lists. */
  const isPrinted = (fold) => fold.matches(":is(.setting, :has(figure.chart), :not(:has(figure.long, .tests li:nth-child(31))))");
  let themeBefore;
  addEventListener("beforeprint", () => {
    themeBefore = root.dataset.theme;
    root.dataset.theme = "light";
    [...document.querySelectorAll("details:not(.words, [open])")].filter(isPrinted).forEach((d) => { d.open = true; d.dataset.opened = "yes"; });
    if (!globalThis.Plotly) return;
    for (const figure of charts()) {
      if (figure.dataset.drawn !== "yes") {
        prepare(figure);
        drawPanels(figure, data.charts[figure.dataset.chart]);
        figure.drawn = Promise.resolve();
      }
    }
    retheme((panels) => (panels > 1 ? 320 : 395));
  });
  addEventListener("afterprint", () => {
    document.querySelectorAll("details[data-opened]").forEach((d) => { d.open = false; delete d.dataset.opened; });
    if (themeBefore) root.dataset.theme = themeBefore;
    else delete root.dataset.theme;
    if (globalThis.Plotly) retheme();
  });

  /* Tables: sort by a column, copy the source. */
  const value = (text) => {
    const found = text.replace(/,/g, "").replace(/−/g, "-").match(/-?\d+(\.\d+)?(e[+-]?\d+)?/i);
    if (!found) return null;
    return text.trim().startsWith("<") ? Number(found[0]) - 1e-12 : Number(found[0]);
  };
  function sort(head, down) {
    const table = head.closest("table");
    const column = [...head.parentNode.children].indexOf(head);
    table.querySelectorAll("th[aria-sort]").forEach((th) => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    /* A published row stays below the row that it belongs to. */
    const rows = [];
    for (const row of table.tBodies[0].rows) {
      if (row.classList.contains("muted") && rows.length) rows.at(-1).push(row);
      else rows.push([row]);
    }
    const numeric = head.classList.contains("n");
    const key = ([row]) => { const t = row.cells[column].textContent; return numeric ? value(t) : t; };
    rows.sort((a, b) => {
      const x = key(a), y = key(b);
      if (x === null || y === null) return (x === null) - (y === null);
      const order = numeric ? x - y : x.localeCompare(y, undefined, { numeric: true });
      return down ? -order : order;
    });
    table.tBodies[0].append(...rows.flat());
  }
  async function copy(button) {
    const text = data.tables[button.closest("figure").id][button.dataset.copy];
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.dataset.label ??= button.textContent;
    button.textContent = "copied";
    document.querySelector(".announced").textContent = "copied";
    clearTimeout(button.timer);
    button.timer = setTimeout(() => { button.textContent = button.dataset.label; }, 1500);
  }
  function download(name, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = `${name}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    const head = button?.closest("th");
    if (head) sort(head, head.getAttribute("aria-sort") === "ascending");
    else if (button?.dataset.copy) copy(button);
    else if (button?.dataset.download) download(button.dataset.download, data.charts[button.dataset.download].csv);
    else if (button?.dataset.name) {
      const figure = button.closest("figure");
      await draw(figure);
      (event.shiftKey ? isolate : toggle)(figure, button.dataset.name);
    }
  });
  document.addEventListener("dblclick", (event) => {
    const button = event.target.closest(".legend button");
    if (button) isolate(button.closest("figure"), button.dataset.name);
  });

  /* Open the folds around a link's target. */
  document.addEventListener("click", (event) => {
    const place = document.getElementById(event.target.closest("a[href^='#']")?.getAttribute("href").slice(1) ?? "");
    for (let fold = place?.querySelector(":scope > details.setting") ?? place?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  });

  /* Mark the reader's place in the contents. */
  function markPlace() {
    const links = [...document.querySelectorAll("nav a")];
    const line = innerHeight / 3;
    const passed = links.filter((a) => document.getElementById(a.getAttribute("href").slice(1)).getBoundingClientRect().top < line);
    const atEnd = scrollY > 0 && scrollY + innerHeight > root.scrollHeight - 4;
    const here = (atEnd ? links : passed).at(-1) ?? links[0];
    if (here.hasAttribute("aria-current")) return;
    links.forEach((a) => a.removeAttribute("aria-current"));
    here.setAttribute("aria-current", "true");
    const nav = here.closest("nav");
    const box = here.getBoundingClientRect(), frame = nav.getBoundingClientRect();
    nav.scrollBy({ left: box.left - frame.left - frame.width / 3, top: box.top - frame.top - frame.height / 3 });
  }
  addEventListener("scroll", markPlace, { passive: true });

  const nameOf = (fold) => `${fold.closest("figure, section")?.id} ${fold.querySelector("summary").textContent}`;
  function keep() {
    const out = {};
    for (const figure of charts()) {
      if (figure.dataset.drawn !== "yes") continue;
      const zoom = [...figure.querySelectorAll(".panel")].map((panel) => panel.zoom);
      out[figure.id] = { zoom, hidden: [...figure.hiddenNames], alone: figure.alone };
    }
    for (const head of document.querySelectorAll("th[aria-sort]")) {
      out[head.closest("figure").id] = { column: head.textContent, place: head.cellIndex, down: head.getAttribute("aria-sort") === "descending" };
    }
    return out;
  }
  /* Columns may have been added: sort by the one with the same name, of several by the one at the same place. */
  function sortAsBefore() {
    for (const figure of document.querySelectorAll("figure.table")) {
      const before = kept[figure.id];
      if (!before) continue;
      const heads = [...figure.querySelectorAll("thead tr:last-child th")].filter((th) => th.textContent === before.column);
      const head = heads.find((th) => th.cellIndex === before.place) ?? heads[0];
      if (head) sort(head, before.down);
    }
  }

  /* Keep the keyboard focus when its element is replaced; new figures have no modebar buttons yet. */
  function focusKept() {
    const all = (id) => [...(document.getElementById(id)?.querySelectorAll("a, button:not(.modebar-btn), summary, [tabindex]") ?? [])];
    const id = document.activeElement.closest("[id]")?.id;
    const place = all(id).indexOf(document.activeElement);
    return () => all(id)[place]?.focus({ preventScroll: true });
  }

  /* A live page asks its server for changes, and is updated in place. */
  async function follow() {
    const sign = document.querySelector(".live");
    for (;;) {
      try {
        const state = await (await fetch("state", { cache: "no-store" })).json();
        if (state.version !== document.querySelector("main").dataset.version) {
          const text = await (await fetch(".", { cache: "no-store" })).text();
          const folds = new Map([...document.querySelectorAll("details")].map((d) => [nameOf(d), d.open]));
          const top = scrollY;
          kept = keep();
          const refocus = focusKept();
          document.getElementById("main").innerHTML = new DOMParser().parseFromString(text, "text/html").getElementById("main").innerHTML;
          document.querySelectorAll("details").forEach((d) => { d.open = folds.get(nameOf(d)) ?? d.open; });
          start();
          refocus();
          scrollTo({ top, behavior: "instant" });
        }
        if (sign.textContent !== state.state) sign.textContent = state.state;
        sign.classList.remove("lost");
      } catch {
        sign.textContent = "server gone";
        sign.classList.add("lost");
      }
      await new Promise((done) => setTimeout(done, 2000));
    }
  }

  /* Runs under way are updated more often than the rest of the page, which changes only when a run ends. */
  async function followRuns() {
    const place = document.getElementById("under-way");
    let last = "";
    for (;;) {
      try {
        const text = await (await fetch("under-way", { cache: "no-store" })).text();
        if (text !== last) {
          last = text;
          const [x, y] = [place.querySelector(".scroll")?.scrollLeft, place.querySelector(".scroll")?.scrollTop];
          const refocus = focusKept();
          place.innerHTML = text;
          place.hidden = !text;
          place.querySelector(".scroll")?.scrollTo(x ?? 0, y ?? 0);
          refocus();
        }
      } catch { /* follow() shows that the server is gone */ }
      await new Promise((done) => setTimeout(done, 2000));
    }
  }

  function start() {
    data = JSON.parse(document.getElementById("data").textContent);
    const first = charts()[0];
    sortAsBefore();
    markPlace();
    /* Let the page be read before plotly.js is unpacked, which takes a second or two. */
    requestAnimationFrame(() => setTimeout(() => {
      performance.mark("seedspread-readable");
      drawWhenSeen();
      (first ? draw(first) : Promise.resolve()).then(() => {
        performance.mark("seedspread-ready");
        root.dataset.ready = "yes";
      });
    }));
  }
  globalThis.seedspread = { drawAll };
  start();
  if (document.body.hasAttribute("data-live")) { follow(); followRuns(); }
})();
