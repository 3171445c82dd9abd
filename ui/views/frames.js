// While a knob is held, shows the frame of the place at which it stands: see frames.py.
const SIZE = 32; // pixels of a handle, as a finger needs it
const PAUSE = 500; // milliseconds after the last key until the page runs
const LOOK = { position: "absolute", width: `${SIZE}px`, height: `${SIZE}px`, borderRadius: "50%", cursor: "grab",
    touchAction: "none", transform: "translate(-50%, -50%)", zIndex: 5, opacity: 0.55,
    background: "radial-gradient(closest-side, transparent 50%, currentColor 55%, currentColor 62%, transparent 67%)" };
const AWAY = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const SHOWN = "headlight-frame"; // while something else is shown than the page has drawn
const PLAYER = "player"; // as in ui/state.py
const NOTHING = { said: [], knobs: {} };
let frames = NOTHING; // as the server has sent them
let charts = new Map(); // by key: the element of a picture that shows a frame, what Streamlit has drawn there, and what is there now
const heard = new WeakSet(); // pictures that say when they are drawn
let texts = new Map(); // by node: what Streamlit has written there
let nodes; // of each text, by its number; undefined while nobody has looked for them
let due = []; // pictures that do not yet show the last frame
let spent = new Map(); // by key: milliseconds that drawing a picture has taken since the page has run
let wanted; // the knob that moved last, and where it stands
let handles = new Map(); // by the name of their knobs
const resized = new ResizeObserver(placeHandles);
let reached = new Map(); // by the name of a knob: the place to which it was moved since the page has run
let tell; // the server where a handle was let go
let ask; // the server for frames, while nobody has
let awaited; // the knob that will play once its frames are there
let holding; // the handle that is being moved: frames may come meanwhile
let waiting; // until the page runs after a key
let dimmed = new Set(); // sliders that stand elsewhere than what is shown
let isWatched = false;

export default function ({ data, setTriggerValue }) {
    const sent = JSON.parse(data.frames);
    takeBack(sent);
    frames = sent;
    nodes = undefined;
    const held = reached.get(holding);
    reached = new Map();
    if (playing && !(playing.knob in frames.knobs)) stop();
    tell = (knob, place) => setTriggerValue("moved", { knob, place });
    ask = data.isWanted ? undefined : () => setTriggerValue("wanted", true);
    if (!isWatched) watch();
    placeHandles();
    catchUp();
    if (holding in frames.knobs) go(holding, held);
    if (data.isWanted && awaited in frames.knobs) play(awaited, 0);
    awaited = undefined;
    return () => { frames = NOTHING; };
}

// A slider may have been moved since the page was asked for its frames.
function catchUp() {
    for (const [name, { frames: all, now }] of Object.entries(frames.knobs)) {
        const input = document.querySelector(`.st-key-${CSS.escape(name)} input[type=range]`);
        if (input && all.length > 0 && Number(input.value) !== now) want(name, Number(input.value));
    }
}

// Somebody is near a knob: the page is asked, once, for its frames.
function near({ target }) {
    const name = target.closest?.("[class*=st-key-]")?.className.match(/st-key-(\S+)/)?.[1];
    if (!ask || !(name in frames.knobs || name === PLAYER || [...handles.values()].includes(target))) return;
    ask();
    ask = undefined;
}

function watch() {
    isWatched = true;
    const app = document.querySelector("[data-testid=stApp]");
    const observer = new MutationObserver((changes) => {
        for (const { target } of changes) {
            const name = target.closest("[class*=st-key-]")?.className.match(/st-key-(\S+)/)?.[1];
            if (name in frames.knobs) want(name, Number(target.value));
        }
    });
    observer.observe(document.body, { subtree: true, attributeFilter: ["aria-valuetext"] });
    resized.observe(app);
    for (const type of ["pointerover", "pointerdown", "focusin"]) document.addEventListener(type, near, true);
}

// --- showing a frame

function want(name, at) {
    if (wanted === undefined) requestAnimationFrame(show);
    wanted = { name, at };
}

// The frames are those of the last run. What a run is drawing may be of another text, so they wait until it ends.
function show() {
    if (wanted === undefined) return;
    if (document.querySelector("[data-testid=stApp]").dataset.testScriptState !== "notRunning") {
        requestAnimationFrame(show);
        return;
    }
    const { name, at } = wanted;
    wanted = undefined;
    const distance = ([place]) => Math.abs(place - at);
    const all = frames.knobs[name]?.frames ?? [];
    if (all.length === 0) return;
    const [, frame] = all.reduce((best, one) => (distance(one) < distance(best) ? one : best));
    due = [...new Set([...due, ...charts.keys(), ...Object.keys(frame.charts)])].filter(pictureOf);
    drawNext(frame);
    nodes ??= found();
    nodes.forEach((of, number) => {
        const pieces = frame.said[number] ?? frames.said[number];
        if (of?.length === pieces.length) of.forEach((node, place) => write(node, pieces[place]));
    });
    document.documentElement.classList.add(SHOWN);
    const point = frames.knobs[name].points.find(([place]) => place === at);
    if (point) put(name, frames.knobs[name].at = point.slice(1)); // also where the picture is fitted into another window
}

// One picture in each frame of the browser: two would take the time of three. Each gets as much time as the others, so that one of
// many matrices does not hold up one of a single matrix, which is drawn more often.
function drawNext(frame) {
    const time = (chart) => spent.get(chart) ?? 0, begun = performance.now();
    const chart = due.sort((one, other) => time(one) - time(other)).shift();
    if (chart === undefined) return;
    draw(chart, frame.charts[chart]);
    spent.set(chart, time(chart) + performance.now() - begun);
    requestAnimationFrame(() => { if (wanted === undefined) drawNext(frame); });
}

const pictureOf = (key) => document.querySelector(`.st-key-${CSS.escape(key)} .js-plotly-plot`);

// Draw a picture as Streamlit has drawn it, with what differs in a frame. Where Plotly need not compare, it takes two thirds of the time.
function draw(key, change) {
    const element = pictureOf(key);
    if (!element || !window.Plotly) return;
    if (!heard.has(element)) element.on("plotly_afterplot", () => drawAgain(key, element));
    heard.add(element);
    const drawn = charts.get(key), before = drawn?.change;
    if (drawn?.element === element && drawn.now === element.data && !before?.all && !change?.all) {
        drawn.data.forEach((trace, number) =>
            Object.assign(element.data[number], differing(trace, before?.data?.[number], change?.data?.[number])));
        Object.assign(element.layout, differing(drawn.layout, before?.layout, change?.layout));
        drawn.change = change;
        window.Plotly.redraw(element); // its update would draw the words of a layout once more
        return;
    }
    const { data, layout } = drawn?.element === element && drawn.now === element.data ? drawn : element;
    const now = change?.all ?? data.map((trace, number) => ({ ...trace, ...change?.data?.[number] }));
    charts.set(key, { element, data, layout: { ...layout }, change, now });
    window.Plotly.react(element, now, { ...layout, ...change?.layout });
    charts.get(key).now = element.data;
}

// The entries that this frame changes, or the one before has changed: null stands for nothing, as in Plotly.
function differing(whole, before, change) {
    const names = Object.keys({ ...before, ...change });
    return Object.fromEntries(names.map((name) => [name, { ...whole, ...change }[name] ?? null]));
}

// Streamlit draws its own picture again where its size has changed, as a longer sentence beside it changes it.
function drawAgain(key, element) {
    const drawn = charts.get(key);
    if (drawn?.element === element && element.data !== drawn.now) requestAnimationFrame(() => draw(key, drawn.change));
}

function write(node, words) {
    if (node.nodeValue === words) return;
    if (!texts.has(node)) texts.set(node, node.nodeValue);
    node.nodeValue = words;
}

// The page has run. Streamlit draws anew only what differs from what it has drawn before, and knows nothing of frames.
function takeBack(sent) {
    due = [];
    spent = new Map();
    nodes?.forEach((of, number) => {
        const pieces = sent.said[number] ?? [];
        of?.forEach((node, place) => {
            if (of.length === pieces.length) node.nodeValue = pieces[place];
            else if (texts.has(node)) node.nodeValue = texts.get(node);
        });
    });
    for (const { element, data, layout, now } of charts.values()) {
        if (element.isConnected && element.data === now) window.Plotly.react(element, data, layout);
    }
    for (const slider of dimmed) slider.style.opacity = "";
    dimmed = new Set();
    texts = new Map();
    charts = new Map();
    document.documentElement.classList.remove(SHOWN);
}

// The nodes of each text on the page that says just what the server thinks that it says.
function found() {
    const places = [...document.querySelectorAll("[data-testid=stMarkdownContainer]")].map(textNodes);
    return frames.said.map((pieces) => {
        const says = (of) => of.length === pieces.length && of.every((node, place) => node.nodeValue === pieces[place]);
        const at = places.findIndex(says);
        return at < 0 ? undefined : places.splice(at, 1)[0];
    });
}

function textNodes(root) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), all = [];
    while (walker.nextNode()) if (walker.currentNode.nodeValue.trim() !== "") all.push(walker.currentNode);
    return all;
}

// --- playing

let playing; // the knob that plays, and its timer
let paused; // the knob that was played and goes on from where it is

window.addEventListener("headlight-play", ({ detail: { knob, what } }) => {
    const last = frames.knobs[knob]?.frames.length - 1;
    if (last < 0) awaited = knob;
    if (!(last > 0)) return;
    const at = stands(knob), isPlaying = playing?.knob === knob;
    stop();
    if (what === "back") rest(knob, Math.max(0, at - 1));
    else if (what === "on") rest(knob, Math.min(last, at + 1));
    else if (isPlaying) settle((paused = knob));
    else play(knob, paused === knob && at < last ? at : 0);
});

// P plays, wherever the focus is, except where one types.
document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "p" || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.composedPath()[0].matches?.("input:not([type=range]), textarea, select, [contenteditable=true]")) return;
    const knob = Object.keys(frames.knobs).find((name) => frames.knobs[name].rest > 0);
    if (knob) window.dispatchEvent(new CustomEvent("headlight-play", { detail: { knob, what: "play" } }));
});

// The number of the frame that is shown of a knob.
function stands(name) {
    const { frames: all, now } = frames.knobs[name], at = reached.get(name) ?? now;
    return Math.max(0, all.findIndex(([place]) => place === at));
}

function play(knob, number) {
    const { frames: all, rest: seconds } = frames.knobs[knob];
    go(knob, all[number][0]);
    const end = () => {
        stop();
        settle(knob);
    };
    paused = undefined;
    playing = { knob, timer: setTimeout(number + 1 < all.length ? () => play(knob, number + 1) : end, 1000 * seconds) };
    window.dispatchEvent(new CustomEvent("headlight-playing", { detail: knob }));
}

function stop() {
    clearTimeout(playing?.timer);
    playing = undefined;
    window.dispatchEvent(new CustomEvent("headlight-playing", { detail: null }));
}

// Show one frame, and let the page run there unless another one is asked for soon.
function rest(knob, number) {
    go(knob, frames.knobs[knob].frames[number][0]);
    clearTimeout(waiting);
    waiting = setTimeout(() => settle(knob), PAUSE);
}

// --- handles

// Put each handle where it is in its picture, as soon as that is drawn.
function placeHandles() {
    for (const [name, handle] of handles) if (!(name in frames.knobs)) handle.remove();
    let isDrawn = true;
    for (const [name, { picture, at, label }] of Object.entries(frames.knobs)) {
        if (!picture) continue;
        const inside = pictureOf(picture)?.querySelector(".svg-container");
        if (!inside || !pictureOf(picture)._fullLayout?.xaxis) {
            isDrawn = false;
            continue;
        }
        const handle = handles.get(name) ?? made(name, label);
        handles.set(name, handle);
        if (handle.parentElement !== inside) {
            inside.append(handle);
            resized.observe(inside); // Plotly fits a picture into another window some time after the window has changed
        }
        put(name, at);
    }
    if (!isDrawn) requestAnimationFrame(placeHandles);
}

function made(name, label) {
    const handle = document.createElement("div");
    Object.assign(handle.style, LOOK);
    for (const [key, value] of Object.entries({ role: "slider", tabindex: 0, "aria-label": label })) handle.setAttribute(key, value);
    let held = false;
    const move = (event) => {
        if (!held) return;
        event.stopPropagation();
        const box = handle.parentElement.getBoundingClientRect();
        go(name, nearest(name, event.clientX - box.left, event.clientY - box.top, () => true));
    };
    const end = (event) => {
        if (!held) return;
        event.stopPropagation();
        held = false;
        handle.style.cursor = "grab";
        settle(name);
    };
    handle.addEventListener("pointerdown", (event) => {
        event.stopPropagation();
        event.preventDefault();
        handle.focus({ preventScroll: true });
        handle.setPointerCapture(event.pointerId);
        handle.style.cursor = "grabbing";
        held = true;
        holding = name;
    });
    handle.addEventListener("pointermove", move);
    for (const type of ["pointerup", "pointercancel"]) handle.addEventListener(type, end);
    handle.addEventListener("keydown", (event) => {
        const away = AWAY[event.key];
        if (!away) return;
        event.preventDefault();
        event.stopPropagation();
        const [x, y] = [parseFloat(handle.style.left), parseFloat(handle.style.top)];
        // Of the places on this side, the nearest one: straight on counts more than aside.
        const isThere = (dx, dy) => {
            const on = dx * away[0] + dy * away[1], aside = Math.abs(dx * away[1] + dy * away[0]);
            return on > 0.5 && aside <= on;
        };
        go(name, nearest(name, x, y, isThere));
        holding = name;
        clearTimeout(waiting);
        waiting = setTimeout(() => settle(name), PAUSE);
    });
    return handle;
}

// Pixels of a point in a picture.
function pixels(name, [x, y]) {
    const { xaxis, yaxis } = pictureOf(frames.knobs[name].picture)._fullLayout;
    return [xaxis._offset + xaxis.c2p(x), yaxis._offset + yaxis.c2p(y)];
}

// The place of a handle that is nearest to some pixels, among those that are allowed.
function nearest(name, x, y, allows) {
    let best;
    for (const [place, ...point] of frames.knobs[name].points) {
        const [left, top] = pixels(name, point), away = Math.hypot(left - x, top - y);
        if (allows(left - x, top - y) && !(best?.away <= away)) best = { place, away };
    }
    return best?.place;
}

function go(name, place) {
    if (place === undefined || place === reached.get(name)) return;
    reached.set(name, place);
    const slider = document.querySelector(`.st-key-${CSS.escape(name)}:has(input[type=range])`);
    if (slider) {
        slider.style.opacity = 0.35;
        dimmed.add(slider);
    }
    want(name, place);
}

function put(name, point) {
    const handle = handles.get(name);
    if (!handle?.isConnected) return; // its picture is gone, as where the page says what is wrong with a field
    const [left, top] = pixels(name, point);
    Object.assign(handle.style, { left: `${left}px`, top: `${top}px` });
    handle.setAttribute("aria-valuenow", reached.get(name) ?? frames.knobs[name].now ?? 0);
    handle.setAttribute("aria-valuetext", point.map((number) => Number(number.toPrecision(3))).join(", "));
}

// The knob was let go: the page runs.
function settle(name) {
    holding = undefined;
    if (reached.has(name)) tell(name, reached.get(name));
}
