// A saved page: one view after another. All texts are put into the page as texts. COLOURS are those of page.py.
const views = JSON.parse(text("views"));
const KEYS = [
    ["← →", "the knob"], ["Page ↓, Page ↑, space", "the next view"], ["P", "play, or pause"],
    ["S", "spotlight on the row, column or cell, or off"], ["N", "notes; in a window: Shift + N"], ["D", "a dark or a light ground"],
    [". or B", "a black screen"], ["A", "where the numbers come from"], ["?", "these keys"],
];
const SPOTS = ["none", "row", "column", "cell"];
let at = 0; // the number of the view
let shown; // its parts
let isDark, notesWindow, timer;

function make(name, words = "", look = {}) {
    const element = Object.assign(document.createElement(name), look);
    element.textContent = words;
    return element;
}

const main = document.body.appendChild(make("main"));
const footer = document.body.appendChild(make("footer"));
const notes = document.body.appendChild(make("div", "", { className: "over", hidden: true }));
const black = document.body.appendChild(make("div", "", { className: "black", hidden: true }));
const button = (words, label, act) => {
    const made = footer.appendChild(make("button", words, { title: label, onclick: act }));
    made.setAttribute("aria-label", label);
    return made;
};
button("←", "The view before", () => go(at - 1));
button("→", "The next view", () => go(at + 1));
const lamp = button("☀", "Spotlight", () => light());
button("◐", "Dark or light", () => ground(!isDark));
button("?", "Keys", () => over(KEYS));
button("About", "Where the numbers come from", () => over(views[at].about));
const place = footer.appendChild(make("span"));
black.onclick = () => { black.hidden = true; };

// --- a view

async function go(number) {
    if (number < 0 || number >= views.length) return;
    at = number;
    stop();
    const view = views[at], lines = [], pictures = [];
    main.replaceChildren(make("h1", view.title));
    for (const words of view.words) {
        const line = main.appendChild(make("p")), nodes = [];
        for (const [part, isBold] of words) {
            const node = document.createTextNode(part);
            if (isBold) line.appendChild(make("strong")).append(node);
            else line.append(node);
            if (part.trim() !== "") nodes.push(node);
        }
        lines.push(nodes);
    }
    const knobs = main.appendChild(make("div", "", { className: "knobs" }));
    const line = main.appendChild(make("div", "", { className: "line" }));
    const box = main.appendChild(make("div", "", { className: "pictures" }));
    shown = { view, lines, pictures, said: view.words.map((words) => words.map(([part]) => part).filter((part) => part.trim())),
        sliders: view.knobs.map((knob, index) => slider(knob, index, knobs)) };
    const isSmall = ({ layout }) => layout.meta?.rows === "equation", large = view.pictures.filter((one) => !isSmall(one));
    for (const { data, layout, alt, title } of view.pictures) {
        const isLow = isSmall({ layout }), figure = (isLow ? line : box).appendChild(make("figure"));
        if (!isLow && large.length > 1) figure.append(make("figcaption", title));
        const element = figure.appendChild(make("div"));
        element.setAttribute("role", "img");
        element.setAttribute("aria-label", alt);
        const fits = { ...layout, autosize: true };
        for (const side of isLow ? ["width"] : ["width", "height"]) delete fits[side];
        if (isLow) element.style.height = `${layout.height}px`;
        const rows = isLow ? 0 : Math.min(layout.yaxis?.ticktext?.length ?? 0, ALL);
        element.style.setProperty("--least", `${rows * 11 + 130}px`); // on a phone, where a view may be longer than the screen
        pictures.push({ element, data, layout: fits, now: [data, fits] });
    }
    shown.spot = pictures.find(canBeLit)?.layout.meta.spot ?? "none";
    lamp.hidden = !pictures.some(canBeLit);
    // Once all have their place: a picture is drawn as large as that is.
    for (const picture of pictures) {
        const { element } = picture;
        await draw(picture);
        element.on("plotly_afterplot", () => fitLabels(element));
        fitLabels(element);
    }
    place.textContent = `${at + 1} / ${views.length}`;
    tell();
    still(true);
}

function slider(knob, index, box) {
    const label = box.appendChild(make("label", knob.label)), value = make("span", knob.places[knob.at]);
    const input = Object.assign(make("input"), { type: "range", min: 0, max: knob.places.length - 1, step: 1, value: knob.at });
    input.oninput = () => { stop(); move(index, Number(input.value)); };
    label.append(input, value);
    if (knob.rest > 0) box.append(make("button", "Play", { onclick: () => play(index) }));
    return { knob, input, value };
}

// Show what differs at a place of a knob. The other knobs stand where they stood when the page was saved.
function move(index, number) {
    const { knob, input, value } = shown.sliders[index], frame = knob.frames[number];
    shown.sliders.forEach((other, place) => {
        const stands = place === index ? number : other.knob.at;
        other.input.value = stands;
        other.value.textContent = other.knob.places[stands];
    });
    value.textContent = knob.places[input.value];
    shown.pictures.forEach((picture, place) => {
        const { data, layout } = picture;
        const change = frame.charts[place];
        const traces = change?.all ?? data.map((trace, each) => ({ ...trace, ...change?.data?.[each] }));
        const sizes = change ? { autosize: true } : {};
        const next = { ...layout, ...change?.layout, ...sizes };
        if (layout.width === undefined) delete next.width;
        if (layout.height === undefined) delete next.height;
        picture.now = [traces, next];
        draw(picture);
    });
    shown.lines.forEach((nodes, place) => {
        const pieces = frame.said[place] ?? shown.said[place];
        if (pieces.length === nodes.length) nodes.forEach((node, each) => { node.nodeValue = pieces[each]; });
    });
}

function play(index) {
    if (timer) return stop();
    const { knob, input } = shown.sliders[index], last = knob.places.length - 1;
    const from = Number(input.value) < last && input.dataset.paused ? Number(input.value) : 0;
    const step = (number) => {
        move(index, number);
        input.dataset.paused = number < last ? "yes" : "";
        timer = number < last ? setTimeout(() => step(number + 1), 1000 * knob.rest) : undefined;
    };
    step(from);
}

function stop() {
    clearTimeout(timer);
    timer = undefined;
}

// --- spotlight and ground

// Draw a picture as it stands now, with the spotlight and in the colours of the ground.
function draw({ element, now: [data, layout] }) {
    const lit = { ...layout, shapes: withSpotlight(layout) };
    return window.Plotly.react(element, ...(isDark ? onDark(data, lit) : [data, lit]), { responsive: true, displayModeBar: false });
}

const canBeLit = ({ layout }) => layout.meta?.lit?.some((place) => place !== null);

function light() {
    if (!shown.pictures.some(canBeLit)) return;
    shown.spot = SPOTS[(SPOTS.indexOf(shown.spot) + 1) % SPOTS.length];
    shown.pictures.forEach(draw);
}

// As `with_spotlight` of core/figures/heatmaps/frames.py: the shapes of a picture, below them veils over what is not lit.
function withSpotlight({ meta, shapes = [], xaxis, yaxis }) {
    const others = shapes.filter(({ name }) => name !== "veil"), [row, column] = meta?.lit ?? [null, null], { spot } = shown;
    if (spot === "none" || (spot !== "column" && row === null) || (spot !== "row" && column === null)) return others;
    const low = Math.round(yaxis.range[0] + 0.5) - 0.5, right = Math.round(xaxis.range[1] + 0.5) - 0.5;
    const [above, below] = spot === "column" ? [-0.5, low] : [row - 0.5, row + 0.5];
    const [before, after] = spot === "row" ? [-0.5, right] : [column - 0.5, column + 0.5];
    const dimmed = [
        [-0.5, above, -0.5, right], [below, low, -0.5, right], [above, below, -0.5, before], [above, below, after, right],
    ];
    const veils = dimmed.filter(([y0, y1, x0, x1]) => y0 < y1 && x0 < x1).map(([y0, y1, x0, x1]) => (
        { type: "rect", xref: "x", yref: "y", y0, y1, x0, x1, fillcolor: COLOURS.veil, line: { width: 0 }, name: "veil" }
    ));
    return [...veils, ...others];
}

// As the app does: other letters, and other colours of signed numbers; those printed in the cells are white, with a dark rim.
function onDark(data, layout) {
    const isSigned = (look) => JSON.stringify(look?.colorscale) === JSON.stringify(COLOURS.signed);
    const dark = (look) => (isSigned(look) ? { ...look, colorscale: COLOURS.signedOnDark } : look);
    const white = (trace) => ({ ...trace, textfont: { ...trace.textfont, color: "white" } });
    const traces = data.map((trace) => (trace.mode === "text" && data.some(isSigned) ? white(trace) : dark(trace)));
    return [traces, { ...layout, coloraxis: dark(layout.coloraxis), font: { ...layout.font, color: COLOURS.text } }];
}

function ground(dark) {
    isDark = dark;
    for (const name of ["dark", "light"]) document.documentElement.classList.toggle(name, dark === (name === "dark"));
    shown?.pictures.forEach(draw);
}

const SYSTEM = matchMedia("(prefers-color-scheme: dark)");
SYSTEM.onchange = () => ground(SYSTEM.matches);
ground(SYSTEM.matches);

// --- notes, keys and the pointer

function over(rows) {
    const isOpen = !notes.hidden && notes.dataset.of === String(rows);
    notes.hidden = isOpen;
    notes.dataset.of = String(rows);
    if (isOpen) return;
    const table = make("table");
    for (const [name, words] of rows) {
        const row = table.appendChild(make("tr"));
        row.append(make("th", name), make("td", words));
    }
    notes.replaceChildren(table);
}

function tell() {
    const words = views[at].notes + (views[at + 1] ? `\n\nNext: ${views[at + 1].title}` : "");
    if (notesWindow && !notesWindow.closed) notesWindow.document.body.textContent = words;
    if (notes.dataset.of === "notes") notes.textContent = words;
    else notes.hidden = true;
    return words;
}

function showNotes(inWindow) {
    if (inWindow) {
        notesWindow = window.open("", "headlight-notes", "width=640,height=480");
        if (notesWindow) notesWindow.document.body.style = "font: 24px/1.4 system-ui; white-space: pre-wrap; margin: 1em";
        return tell();
    }
    const isOpen = !notes.hidden && notes.dataset.of === "notes";
    notes.dataset.of = isOpen ? "" : "notes";
    notes.hidden = isOpen;
    tell();
}

const turnKnob = (by) => {
    const first = shown.sliders[0];
    if (!first) return;
    stop();
    move(0, Math.max(0, Math.min(Number(first.input.value) + by, first.knob.places.length - 1)));
};
const ACTS = {
    ArrowLeft: () => turnKnob(-1), ArrowRight: () => turnKnob(1), PageDown: () => go(at + 1), PageUp: () => go(at - 1),
    " ": () => go(at + 1), p: () => { const playing = shown.view.knobs.findIndex(({ rest }) => rest > 0); if (playing >= 0) play(playing); },
    s: light, d: () => ground(!isDark),
    n: () => showNotes(false), N: () => showNotes(true), b: () => { black.hidden = !black.hidden; }, ".": () => ACTS.b(),
    a: () => over(views[at].about), "?": () => over(KEYS), Escape: () => { black.hidden = notes.hidden = true; },
};

document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !shown) return;
    if (event.target.matches("input, button") && ["ArrowLeft", "ArrowRight", " "].includes(event.key)) return;
    const act = ACTS[event.key] ?? ACTS[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    still(true);
    act();
});
const HOVERS = matchMedia("(hover: hover)");
const still = (isStill) => document.documentElement.classList.toggle("still", isStill && HOVERS.matches);
document.addEventListener("pointermove", ({ movementX, movementY }) => { if (movementX || movementY) still(false); });

unpack().then(() => go(0)).catch((error) => main.replaceChildren(make("p", `This browser cannot draw the pictures: ${error.message}`)));
