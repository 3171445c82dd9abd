// Tokens as running text, shaded: the common part of components that show them, placed before the script of each.
// Tokens are other people's text: they are always set as text, never as markup.

const NO_BREAK = "\u00a0";
const CONTRAST = 4.6; // of text on the strongest shade

// --- tokens

function side(spelled, label, isColumn) {
    const list = make("div", "tokens");
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-multiselectable", "true");
    list.setAttribute("aria-label", label);
    const tokens = spelled.text.map((text, place) => {
        const quiet = spelled.quiet[place];
        const mark = quiet ? [make("span", "quiet", [text.slice(0, quiet)])] : [];
        const token = make("span", "token", [...mark, text.slice(quiet)]);
        token.setAttribute("role", "option");
        token.classList.toggle("special", spelled.marks?.[place] === "s");
        token.classList.toggle("written", spelled.marks?.[place] === "w");
        token.dir = "auto";
        token.tabIndex = place === 0 ? 0 : -1;
        if (!isColumn && place) list.append({ j: "", b: document.createElement("wbr"), s: " " }[spelled.before[place]]);
        list.append(token);
        if (!isColumn && spelled.after[place] === "n") list.append(document.createElement("br"));
        return token;
    });
    return { list, tokens, ...spelled };
}

// Return the nearest token in the next line above or below.
function inNextLine(tokens, place, step) {
    const middle = (box) => (box.left + box.right) / 2;
    const here = tokens[place].getBoundingClientRect();
    const boxes = tokens.map((token) => token.getBoundingClientRect());
    const ways = boxes.map((box) => (box.top - here.top) * step);
    const beyond = ways.map((way) => (way > here.height / 2 ? way : Infinity));
    const next = Math.min(...beyond);
    let best;
    boxes.forEach((box, other) => {
        if (beyond[other] > next + here.height / 2) return;
        const way = Math.abs(middle(box) - middle(here));
        if (best === undefined || way < best.way) best = { way, token: tokens[other] };
    });
    return next === Infinity ? undefined : best.token;
}

// Return “cat” (7) as an isolated element, so that a right-to-left token does not reverse the sentence.
function name(side, place) {
    const letters = [...(side.text[place].slice(side.quiet[place]) || side.text[place])];
    const short = letters.length > 24 ? `${letters.slice(0, 23).join("")}…` : letters.join("");
    return make("bdi", "", ["“", make("bdi", "", [short]), `”${NO_BREAK}(${position(side, place)})`]);
}

// Return the position of a token in the whole text; where several are written as one, from the first to the last.
function position({ start, block = 1, count }, place) {
    const first = start + place * block;
    const last = Math.min(first + block, count ?? Infinity) - 1;
    return last > first ? `${first}–${last}` : `${first}`;
}

const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

// Return the token to which a key leads from `place`, or the same one at the ends; undefined for other keys.
function stepped(key, tokens, place) {
    const moves = {
        ArrowLeft: () => tokens[place - 1],
        ArrowRight: () => tokens[place + 1],
        ArrowUp: () => inNextLine(tokens, place, -1),
        ArrowDown: () => inNextLine(tokens, place, 1),
        Home: () => tokens[0],
        End: () => tokens[tokens.length - 1],
    };
    return key in moves ? moves[key]() || tokens[place] : undefined;
}

function focusOn(token) {
    for (const other of token.parentElement.querySelectorAll(".token[tabindex='0']")) other.tabIndex = -1;
    token.tabIndex = 0;
    token.focus(); // scrolls it into sight as well
}

// Return a percentage with three significant digits.
function percent(weight) {
    const share = weight * 100;
    if (share === 0) return "0%";
    return share < 0.001 ? "under 0.001%" : `${share.toPrecision(3)}%`;
}

// --- colours

// Return shades of one hue that grow stronger with the weight, but not so strong that text on them is hard to read.
function shades(root) {
    const style = getComputedStyle(root);
    const themed = (part) => rgb(style.getPropertyValue(`--st-${part}-color`));
    const [text, background, hue] = [themed("text"), themed("background"), themed("primary")];
    const mixed = (share) => hue.map((part, place) => part * share + background[place] * (1 - share));
    let strength = 0.9;
    while (strength > 0.1 && contrast(text, mixed(strength)) < CONTRAST) strength -= 0.01;
    return { line: `rgb(${hue})`, at: (share) => `rgba(${hue}, ${(share * strength).toFixed(4)})` };
}

// Return red, green and blue from 0 to 255 for a colour in any notation, by painting a pixel with it.
function rgb(colour) {
    const paper = document.createElement("canvas").getContext("2d");
    paper.fillStyle = colour.trim();
    paper.fillRect(0, 0, 1, 1);
    return [...paper.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

// Return the contrast ratio of two colours (WCAG 2.2).
function contrast(one, other) {
    const linear = (part) => (part <= 0.04045 * 255 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    const [low, high] = [one, other]
        .map((colour) => colour.map(linear))
        .map(([red, green, blue]) => 0.2126 * red + 0.7152 * green + 0.0722 * blue)
        .sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
}

// --- elements

function make(tag, className, children = []) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...children); // strings become text, never markup
    return element;
}

function numbers(base64) {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    return new Float32Array(bytes.buffer);
}
