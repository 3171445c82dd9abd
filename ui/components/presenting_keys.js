const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const ACTS = {
    PageDown: () => turn(1), PageUp: () => turn(-1), Escape: leave, s: light, n: showNotes,
    "?": () => toggle("legend"), ".": () => toggle("black"), b: () => toggle("black"),
};
const PATIENCE = 15000; // milliseconds that keys wait for a view while nothing runs
const LOOKS = 25; // five in a second, after its run, until a view counts as not drawn: while a browser draws, it does not look
const HOVERS = matchMedia("(hover: hover)"); // whether there is a pointer that can rest on something
const TALK = "headlight-talk"; // the key of the talk in the browser's storage: see browser.js

// The walk is kept over views and pages, because keys are pressed faster than these are drawn.
//   mode      "desk", "entering", "stage", "leaving"
//   waiting   keys that have been pressed and not handled yet
//   at        the index of the view of the talk that is there; null while none is
//   presses   the number of presses sent to the page; its data counts only once it has seen the last one
//   wanted    the index of the view of the talk that the browser goes to, until it is there
//   since     the time when this began, somebody last went to a view or pressed Present, or a run was last seen
const walk = { mode: "desk", waiting: [], at: null, presses: 0, since: performance.now() };
let data, parts, setTriggerValue; // those of the last run of the page

export default function (component) {
    ({ data, setTriggerValue } = component);
    const names = ["bar", "place", "notes", "legend", "black", "curtain"];
    parts = Object.fromEntries(names.map((name) => [name, component.parentElement.querySelector(`.${name}`)]));
    walk.waiting.push(...window.headlight.takeKeys().filter(isOurs));
    takeIn();
    show();
    parts.bar.querySelector(".help").onclick = () => pressed("?");
    parts.bar.querySelector(".leave").onclick = () => pressed("Escape");
    parts.black.onclick = () => toggle("black");
    if (data.rehearsing && data.at !== null) rehearse();
    measure();
    act();
}

// --- the page's data

function takeIn() {
    if (data.session !== walk.session) Object.assign(walk, { session: data.session, presses: data.presses });
    const isUpToDate = walk.presses <= data.presses;
    if (isUpToDate) {
        if (data.presenting && walk.mode !== "leaving") walk.mode = "stage";
        if (!data.presenting && walk.mode !== "entering") walk.mode = "desk";
    }
    if (walk.mode === "desk") {
        walk.waiting.length = 0;
        still(false);
    }
    if (!data.presenting) return;
    // After a reload the session has no talk until the browser has sent the stored one.
    walk.isThere = data.at === (walk.wanted ?? data.at) && !(data.awaitsTalk && window.localStorage.getItem(TALK));
    if (walk.isThere && (isUpToDate || data.at !== walk.at)) {
        Object.assign(walk, { at: data.at, wanted: undefined, place: data.place, shape: data.shape, spot: data.spot });
    }
}

function show() {
    const { bar, place, notes, legend, black, curtain } = parts;
    bar.hidden = !data.presenting;
    curtain.hidden = !data.rehearsing;
    if (!data.presenting) {
        for (const part of [notes, legend, black]) part.hidden = true;
        return;
    }
    place.textContent = data.at === null ? "" : `${data.at + 1} / ${data.links.length}`;
    notes.textContent = data.notes + (data.next && `\n\nNext: ${data.next}`);
    notes.hidden = !walk.showsNotes || data.at === null;
}

function measure() {
    if (walk.wanted !== undefined && !isLate()) return; // the view that comes measures again
    const size = [window.innerWidth, window.innerHeight];
    if (data.presenting && size.some((length, axis) => length !== data.window[axis])) setTriggerValue("window", size);
}

// --- keys, handled in the order in which they are pressed, each once what it acts on is there

document.addEventListener("keydown", (event) => {
    if (walk.mode === "desk" || (walk.mode === "entering" && isLate())) return;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.composedPath()[0].matches?.("input, textarea, select, [contenteditable=true]")) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (!isOurs(key)) return;
    event.preventDefault();
    if (walk.mode !== "leaving") pressed(key);
});
document.addEventListener(
    "click",
    (event) => {
        if (!data || !event.target.closest?.(data.enters)) return;
        Object.assign(walk, { mode: "entering", waiting: [], wanted: undefined, since: performance.now() });
        still(true);
    },
    true,
);
window.addEventListener("resize", () => {
    clearTimeout(walk.resizing);
    walk.resizing = setTimeout(measure, 250);
});

// Until the pointer moves it is hidden, and points at nothing: a picture that comes under it would show another number.
function still(isStill) {
    document.documentElement.classList.toggle("headlight-still", isStill && walk.mode !== "desk" && HOVERS.matches);
}
window.addEventListener("pointermove", ({ movementX, movementY }) => { if (movementX || movementY) still(false); }, true);

function isOurs(key) {
    return key in STEPS || key in ACTS;
}

function pressed(key) {
    still(true);
    walk.waiting.push(key);
    act();
}

function act() {
    while (walk.waiting.length && canAct(walk.waiting[0])) {
        const key = walk.waiting.shift();
        if (STEPS[key]) step(STEPS[key]);
        else ACTS[key]();
    }
}

function canAct(key) {
    if (walk.mode !== "stage" || !data.presenting) return false;
    const turnsOver = walk.at !== null && walk.wanted !== undefined && key.startsWith("Page");
    return walk.isThere || turnsOver || isLate();
}

function isRunning() {
    return document.querySelector("[data-testid=stApp]").dataset.testScriptState !== "notRunning";
}

function isLate() {
    if (isRunning()) walk.since = performance.now();
    return performance.now() - walk.since > PATIENCE;
}

// The page may get only the last of several messages, so each one holds the outcome of all keys.
function tell(leaves = false) {
    walk.presses += 1;
    setTriggerValue("press", { place: walk.place, spot: walk.spot, leaves, presses: walk.presses });
}

function goTo(view) {
    if (view < 0 || view >= data.links.length) return;
    const turnsOver = walk.wanted !== undefined; // the view before is not there yet, so it does not count as visited
    walk.base = window.headlight.base(data.page) ?? walk.base ?? "/";
    Object.assign(walk, { wanted: view, isThere: false, since: performance.now() });
    window.headlight.go(walk.base + data.links[view], turnsOver);
}

function stepTo(to) {
    if (to.every((at, axis) => at === walk.place[axis])) return;
    walk.place = to;
    tell();
}

function step(by) {
    if (walk.place) stepTo(walk.place.map((at, axis) => Math.max(0, Math.min(at + by[axis], walk.shape[axis] - 1))));
}

// The keys of a clicker.
function turn(by) {
    if (walk.at !== null) return goTo((walk.wanted ?? walk.at) + by);
    if (!walk.place) return;
    const [rows, columns] = walk.shape;
    const next = Math.max(0, Math.min(walk.place[0] * columns + walk.place[1] + by, rows * columns - 1));
    stepTo([Math.floor(next / columns), next % columns]);
}

function light() {
    if (data.spots.length === 0) return; // nothing here has a part to be lit
    walk.spot = data.spots[(data.spots.indexOf(walk.spot) + 1) % data.spots.length];
    tell();
}

function leave() {
    const { legend, black } = parts;
    if (!legend.hidden || !black.hidden) {
        legend.hidden = black.hidden = true;
        return;
    }
    // Keys that wait are dropped: without a presentation they do nothing.
    Object.assign(walk, { mode: "leaving", waiting: [], showsNotes: false, wanted: undefined });
    tell(true);
}

function toggle(part) {
    parts[part].hidden = !parts[part].hidden;
}

function showNotes() {
    walk.showsNotes = !walk.showsNotes;
    parts.notes.hidden = !walk.showsNotes || walk.at === null;
}

// --- opening every view once, so that nothing has to load on stage

function rehearse() {
    parts.curtain.textContent = `Preparing view ${data.at + 1} of ${data.links.length}`;
    if (walk.rehearsed === data.at) return;
    walk.rehearsed = data.at;
    if (data.at === 0) walk.troubled = [];
    const { at, links } = data;
    const isDrawn = () =>
        document.querySelector("[data-stale=true]") === null
        && document.querySelector("[class*=st-key-picture_] .js-plotly-plot") !== null
        && document.querySelector("[class*=st-key-picture_]:not(:has(.js-plotly-plot))") === null;
    let looks = 0;
    const look = setInterval(() => {
        if (isRunning()) looks = 0; // however long it computes
        if (isRunning() || (!isDrawn() && ++looks < LOOKS)) return;
        clearInterval(look);
        smallPicture().then((picture) => keepPicture(links[at].replace(/[?&]present=true&talk=\d+$/, ""), picture));
        if (!isDrawn() || document.querySelector(".stMain .stAlert")) walk.troubled.push(at);
        if (at + 1 < links.length) return goTo(at + 1);
        Object.assign(walk, { mode: "leaving", wanted: undefined, rehearsed: undefined });
        setTriggerValue("rehearsed", walk.troubled);
    }, 200);
}
