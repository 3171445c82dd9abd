const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const LEGEND = [
    ["← ↑ ↓ →", "the next stage or head"],
    ["Page ↓, Page ↑", "the next view of the talk, or the next stage or head"],
    ["S", "light on the row, the column, the cell, or all"],
    ["N", "notes"],
    [". or B", "a black screen"],
    ["Esc", "leave"],
];
const walk = {}; // outlives the page: keys are pressed faster than it runs, and views come and go

export default function ({ parentElement, data, setTriggerValue }) {
    const [bar, place, notes, legend, black, curtain] = ["bar", "place", "notes", "legend", "black", "curtain"].map(
        (name) => parentElement.querySelector(`.${name}`),
    );
    const here = window.location.pathname;
    const base = here.endsWith(`/${data.page}`) ? here.slice(0, here.length - data.page.length) : "/";
    // What the page says counts once it has seen the last press, and shows the view that was asked for last.
    if (data.at !== walk.at) walk.presses = undefined;
    if (walk.presses === undefined || walk.presses <= data.presses) {
        Object.assign(walk, { place: data.place, shape: data.shape, presses: data.presses, spot: data.spot });
    }
    if (walk.wanted === undefined || walk.wanted === data.at) Object.assign(walk, { at: data.at, wanted: undefined });
    place.textContent = data.at === null ? "" : `${data.at + 1} / ${data.links.length}`;
    notes.textContent = data.notes + (data.next && `\n\nNext: ${data.next}`);
    notes.hidden = !walk.showsNotes || data.at === null;
    const list = legend.querySelector("dl");
    if (!list.childElementCount) {
        for (const [keys, words] of LEGEND) {
            list.append(Object.assign(document.createElement("dt"), { textContent: keys }));
            list.append(Object.assign(document.createElement("dd"), { textContent: words }));
        }
    }

    const measure = () => {
        const size = [window.innerWidth, window.innerHeight];
        if (size.some((length, axis) => length !== data.window[axis])) setTriggerValue("window", size);
    };
    const resized = () => {
        clearTimeout(walk.resizing);
        walk.resizing = setTimeout(measure, 250);
    };

    // As the browser's own "back" does: within the session, and nothing is loaded anew. Streamlit takes away from the address
    // what the page before has bound to fields, so to another page it goes in two steps: there, and once that is known, on.
    const open = (path, how) => {
        window.history[how](null, "", base + path);
        window.dispatchEvent(new PopStateEvent("popstate"));
    };
    const goTo = (view) => {
        if (view < 0 || view >= data.links.length) return;
        walk.wanted = view;
        const [page] = data.links[view].split("?");
        const there = page === data.page ? data.links[view] : `${page}?present=true&talk=${view + 1}&on_the_way=true`;
        open(there, "pushState");
    };
    if (data.onTheWay && data.at !== null && walk.wanted === undefined) open(data.links[data.at], "replaceState");
    const stepTo = (to) => {
        if (!walk.place || to.every((at, axis) => at === walk.place[axis])) return;
        walk.place = to;
        walk.presses += 1;
        setTriggerValue("step", { place: to, presses: walk.presses });
    };
    const step = ([down, right]) => {
        if (!walk.place) return;
        const by = [down, right];
        stepTo(walk.place.map((at, axis) => Math.max(0, Math.min(at + by[axis], walk.shape[axis] - 1))));
    };
    const turn = (by) => { // what a clicker sends
        if (data.at !== null) return goTo((walk.wanted ?? walk.at) + by);
        if (!walk.place) return;
        const [rows, columns] = walk.shape;
        const next = Math.max(0, Math.min(walk.place[0] * columns + walk.place[1] + by, rows * columns - 1));
        stepTo([Math.floor(next / columns), next % columns]);
    };
    const light = () => {
        walk.spot = data.spots[(data.spots.indexOf(walk.spot) + 1) % data.spots.length];
        setTriggerValue("spot", walk.spot);
    };
    const leave = () => {
        if (!legend.hidden || !black.hidden) {
            legend.hidden = black.hidden = true;
            return;
        }
        Object.keys(walk).forEach((name) => delete walk[name]);
        setTriggerValue("leave", true);
    };
    const explain = () => { legend.hidden = !legend.hidden; };
    const showNotes = () => {
        walk.showsNotes = !walk.showsNotes;
        notes.hidden = !walk.showsNotes || data.at === null;
    };
    const blacken = () => { black.hidden = !black.hidden; };
    const ACTS = {
        PageDown: () => turn(1), PageUp: () => turn(-1), Escape: leave, "?": explain, s: light, n: showNotes,
        ".": blacken, b: blacken,
    };
    const press = (event) => {
        if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
        const at = event.composedPath()[0];
        if (at.matches?.("input, textarea, select, [contenteditable=true]")) return;
        const by = STEPS[event.key];
        const act = by ? () => step(by) : ACTS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
        if (!act) return;
        event.preventDefault();
        act();
    };
    bar.querySelector(".help").onclick = explain;
    bar.querySelector(".leave").onclick = leave;
    black.onclick = blacken;

    curtain.hidden = !data.rehearsing;
    if (data.rehearsing && data.at !== null && !data.onTheWay) rehearse(data, walk, curtain, goTo, setTriggerValue);
    measure();
    document.addEventListener("keydown", press);
    window.addEventListener("resize", resized);
    return () => {
        document.removeEventListener("keydown", press);
        window.removeEventListener("resize", resized);
    };
}

// Every view is opened once, so that nothing is worked out or loaded for the first time on stage.
function rehearse(data, walk, curtain, goTo, setTriggerValue) {
    curtain.textContent = `Preparing view ${data.at + 1} of ${data.links.length}`;
    if (walk.rehearsed === data.at) return;
    walk.rehearsed = data.at;
    if (data.at === 0) walk.troubled = [];
    const isDrawn = () =>
        document.querySelector("[data-stale=true]") === null
        && document.querySelector("[class*=st-key-picture_]:not(:has(.js-plotly-plot))") === null;
    const since = performance.now();
    const look = setInterval(() => {
        if (!isDrawn() && performance.now() - since < 10000) return;
        clearInterval(look);
        if (document.querySelector(".stMain .stAlert")) walk.troubled.push(data.at);
        if (data.at + 1 < data.links.length) return goTo(data.at + 1);
        const troubled = walk.troubled;
        Object.keys(walk).forEach((name) => delete walk[name]);
        setTriggerValue("rehearsed", troubled);
    }, 200);
}
