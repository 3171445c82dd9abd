// A text whose tokens shade by attention. Queries and keys are two lists of elements; a text that attends to itself is
// one list for both. Shades show a mean over rows (or columns) of the weights: over the one that is pointed at, over the
// pinned ones, or over all rows.
// Tokens are other people's text: they are always set as text, never as markup.

const STRONGEST = 200; // lines while nothing is pointed at: more make a grey area
const FAINTEST = 0.005; // the smallest weight that gets a line from the token that is pointed at
const LINE = 28; // pixels from one token to the next in a column, as in the style sheet

class TextView {
    constructor(parent) {
        this.calls = 0;
        this.hovered = this.focused = null; // tokens; the focused one counts only while somebody uses the keyboard
        this.byKeyboard = false;
        this.isUpdating = false;
        this.legend = make("div", "legend");
        this.scroll = make("div", "scroll");
        this.note = make("div", "note");
        this.note.setAttribute("aria-live", "polite");
        this.root = make("div", "view", [this.legend, this.scroll, this.note]);
        parent.appendChild(this.root);
        this.listen();
    }

    // data: as ui/components/token_view.py sends it, with the weights as an array; tell: called with the position of a clicked
    // token. Return the number of this call.
    update(data, tell) {
        const texts = JSON.stringify([data.queries, data.keys, data.lines]);
        this.isUpdating = true;
        this.data = data;
        this.tell = tell;
        this.weights = data.weights;
        this.hasForbidden = this.weights.some(Number.isNaN);
        this.strongest = null; // lines of all pairs, computed when they are first drawn
        this.colours = shades(this.root);
        if (texts !== this.texts) this.build();
        this.texts = texts;
        this.markPins();
        this.isUpdating = false;
        this.paint();
        return ++this.calls;
    }

    markPins() {
        const { data } = this;
        const own = data.direction === "from" ? this.queries : this.keys;
        const places = data.pinned.map((position) => position - own.start);
        this.pins = places.filter((place) => place >= 0 && place < own.tokens.length);
        for (const side of new Set([this.queries, this.keys])) {
            const pins = side === own || data.keys === null;
            side.tokens.forEach((token, place) => {
                const isPinned = side === own && this.pins.includes(place);
                token.classList.toggle("pinned", isPinned);
                token.setAttribute("aria-selected", isPinned);
                token.toggleAttribute("data-pins", pins);
            });
        }
    }

    // --- the elements

    build() {
        const { queries, keys, lines } = this.data;
        const { hovered, focused, byKeyboard, queries: old } = this;
        this.hovered = this.focused = null;
        const isTwo = keys !== null || lines;
        this.queries = side(queries, isTwo ? "Queries" : "Tokens", lines);
        this.keys = isTwo ? side(keys || queries, "Keys", lines) : this.queries;
        this.svg = null;
        if (lines) {
            this.svg = drawn("svg", { preserveAspectRatio: "none", "aria-hidden": "true" });
            const heads = [make("h4", "", ["Queries"]), make("h4", "", ["Keys"])];
            const parts = [...heads, this.queries.list, this.svg, this.keys.list];
            this.scroll.replaceChildren(make("div", "columns", parts));
        } else if (isTwo) {
            const heads = [make("h4", "", ["Queries: who looks"]), make("h4", "", ["Keys: who is looked at"])];
            this.scroll.replaceChildren(heads[0], this.queries.list, heads[1], this.keys.list);
        } else this.scroll.replaceChildren(this.queries.list);
        // Keep pointing at the same place, even if another token is there now.
        const again = (token) => {
            if (!token) return null;
            const isQuery = old.tokens.includes(token);
            const place = [...token.parentElement.querySelectorAll(".token")].indexOf(token);
            return (isQuery ? this.queries : this.keys).tokens[place] || null;
        };
        this.hovered = again(hovered);
        if (again(focused)) focusOn(again(focused));
        this.byKeyboard = byKeyboard;
    }

    // --- pointing

    get pointed() {
        const token = this.hovered || (this.byKeyboard && this.focused);
        if (!token) return null;
        const side = this.queries.tokens.includes(token) ? this.queries : this.keys;
        return { token, side, place: side.tokens.indexOf(token) };
    }

    listen() {
        const tokenOf = (event) => event.target.closest(".token");
        let isTouch = false;
        this.scroll.addEventListener("pointerover", (event) => {
            // A gap belongs to the token before it, so that nothing flickers between tokens.
            if (event.pointerType !== "touch" && tokenOf(event)) this.hover(tokenOf(event));
        });
        this.scroll.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && this.hover(null));
        this.scroll.addEventListener("pointerdown", (event) => {
            isTouch = event.pointerType === "touch";
            this.byKeyboard = false;
        });
        this.scroll.addEventListener("click", (event) => {
            const token = tokenOf(event);
            // With a finger, the first tap points and the second one clicks.
            if (token && (!isTouch || token === this.hovered)) this.choose(token);
            if (isTouch) this.hover(token);
        });
        this.scroll.addEventListener("focusin", (event) => {
            this.focused = tokenOf(event);
            if (this.focused && this.focused.matches(":focus-visible")) this.byKeyboard = true;
            this.paint();
        });
        this.scroll.addEventListener("focusout", () => {
            this.focused = null;
            this.paint();
        });
        this.scroll.addEventListener("keydown", (event) => {
            const token = tokenOf(event);
            if (!token || event.ctrlKey || event.metaKey || event.altKey) return;
            const { tokens } = this.queries.tokens.includes(token) ? this.queries : this.keys;
            const next = stepped(event.key, tokens, tokens.indexOf(token));
            if (next) {
                this.byKeyboard = true;
                this.hovered = null;
                focusOn(next);
                this.paint();
            } else if (event.key === "Enter" || event.key === " ") this.choose(token);
            else return;
            event.preventDefault();
        });
    }

    hover(token) {
        if (token === this.hovered) return;
        this.hovered = token;
        this.paint();
    }

    choose(token) {
        const side = this.queries.tokens.includes(token) ? this.queries : this.keys;
        if (!token.hasAttribute("data-pins")) return;
        this.tell(side.start + side.tokens.indexOf(token));
    }

    // --- what is shown

    // Return what is averaged: rows, so that keys shade, or columns, so that queries shade.
    get subject() {
        const isFrom = this.data.direction === "from";
        const at = this.pointed;
        const isOne = this.queries === this.keys;
        if (at) return { at, byRow: isOne ? isFrom : at.side === this.queries, places: [at.place] };
        if (this.pins.length) return { byRow: isFrom, places: this.pins };
        return { isAll: true, byRow: true, places: this.queries.tokens.map((_, place) => place) };
    }

    weight(query, key) {
        return this.weights[query * this.keys.tokens.length + key];
    }

    // Return the mean weights. A masked pair counts as 0; the mean is NaN only if all pairs are masked.
    mean({ byRow, places }) {
        return (byRow ? this.keys : this.queries).tokens.map((_, other) => {
            const all = places.map((place) => (byRow ? this.weight(place, other) : this.weight(other, place)));
            const allowed = all.filter((weight) => !Number.isNaN(weight));
            return allowed.length ? allowed.reduce((sum, weight) => sum + weight, 0) / all.length : NaN;
        });
    }

    paint() {
        if (this.isUpdating) return; // moving the focus while the tokens are replaced
        const subject = this.subject;
        const means = this.mean(subject);
        const shaded = subject.byRow ? this.keys : this.queries;
        const top = means.reduce((most, mean) => (mean > most ? mean : most), 0);
        const pairs = subject.at ? this.pairs(subject) : [];
        const lines = this.svg && this.lines(subject);
        this.paintTokens(subject, means, shaded, top);
        if (subject.at) subject.at.token.title = pairs.map((pair) => make("p", "", pair).textContent).join("\n");
        this.paintLegend(top);
        if (lines) this.paintLines(lines.pairs);
        this.paintNote(this.sentence(subject, means, shaded), pairs, lines ? [lines.words] : []);
    }

    paintTokens({ at }, means, shaded, top) {
        for (const side of new Set([this.queries, this.keys])) {
            side.tokens.forEach((token, place) => {
                const mean = side === shaded ? means[place] : undefined;
                const share = mean > 0 && top > 0 ? Math.min(mean / top, 1) : 0;
                token.style.backgroundColor = share ? this.colours.at(share) : "";
                token.classList.toggle("forbidden", Number.isNaN(mean));
                token.classList.toggle("pointed", Boolean(at) && token === at.token);
                token.title = mean === undefined ? "" : Number.isNaN(mean) ? "masked" : this.say(mean);
                const parts = [side.text[place], `position ${position(side, place)}`, token.title];
                token.setAttribute("aria-label", parts.filter(Boolean).join(", "));
            });
        }
    }

    paintNote(sentence, pairs, asides) {
        const missing = this.data.pinned.length - this.pins.length;
        if (missing) asides.push(`${count(missing, "pinned token")} not in this part of the text.`);
        this.note.replaceChildren(
            make("p", "", sentence),
            make("p", "", pairs.flatMap((pair) => [...pair, " "])),
            ...asides.map((words) => make("p", "aside", [words])),
        );
    }

    paintLegend(top) {
        const bar = make("span", "bar");
        bar.style.background = `linear-gradient(to right, transparent, ${this.colours.at(1)})`;
        const parts = [make("span", "", ["Shade: 0", bar, make("span", "highest", [this.say(top)])])];
        const explain = (className, sample, meaning) =>
            parts.push(make("span", "", [make("span", className, [sample]), meaning]));
        if (this.hasForbidden) explain("forbidden", "grey", "masked");
        if (this.pins.length) explain("sample pinned", "frame", "pinned");
        this.legend.replaceChildren(...parts);
    }

    paintLines(pairs) {
        const height = LINE * Math.max(this.queries.tokens.length, this.keys.tokens.length);
        this.svg.setAttribute("viewBox", `0 0 100 ${height}`);
        this.svg.style.height = `${height}px`;
        const middle = (place) => (place + 0.5) * LINE;
        const widest = pairs.length ? pairs[0].weight : 0;
        const paths = pairs.map(({ query, key, weight }) => {
            const share = Math.min(weight / widest, 1) || 0;
            return drawn("path", {
                d: `M0,${middle(query)} C40,${middle(query)} 60,${middle(key)} 100,${middle(key)}`,
                stroke: this.colours.line,
                "stroke-opacity": (0.12 + 0.88 * share).toFixed(3),
                "stroke-width": (0.75 + 4.25 * share).toFixed(2),
            });
        });
        this.svg.replaceChildren(...paths.reverse()); // the strongest on top
    }

    // Return the pairs to join by lines, the strongest first, and a sentence about them.
    lines({ at, isAll, byRow, places }) {
        if (isAll && this.strongest) return this.strongest;
        const others = (byRow ? this.keys : this.queries).tokens;
        const pairs = places
            .flatMap((place) => others.map((_, other) => (byRow ? [place, other] : [other, place])))
            .map(([query, key]) => ({ query, key, weight: this.weight(query, key) }))
            .filter(({ weight }) => !Number.isNaN(weight))
            .sort((one, other) => other.weight - one.weight);
        const least = FAINTEST * (this.data.percent || !pairs.length ? 1 : pairs[0].weight);
        const worthy = pairs.filter(({ weight }) => weight > 0 && (!at || weight >= least));
        const shown = at ? worthy : worthy.slice(0, STRONGEST);
        const bound = this.data.percent ? `${100 * FAINTEST}%` : this.say(least);
        const isSome = shown.length < pairs.length;
        const whose = isAll ? (isSome ? "" : "all ") : at ? "its " : "the pinned tokens’ ";
        const which = isSome ? (at ? `${shown.length} of ` : `the ${shown.length} strongest of `) : "";
        const limit = at && isSome ? `, those of ${bound} or more` : "";
        const widest = shown.length ? `; the widest stands for ${this.say(shown[0].weight)}` : "";
        const words = `Lines: ${which}${whose}${count(pairs.length, "pair")}${limit}${widest}.`;
        const found = { pairs: shown, words };
        if (isAll) this.strongest = found;
        return found;
    }

    // “cat” (7) attends most to “the” (2): 41.3%, then “sat” (8): 20.1% and “on” (9): 11.0%.
    sentence({ at, byRow, isAll, places }, means, shaded) {
        const one = (at || places.length === 1) && name(byRow ? this.queries : this.keys, places[0]);
        const allowed = means.map((mean, place) => ({ mean, place })).filter(({ mean }) => !Number.isNaN(mean));
        if (!allowed.length && byRow) return [one || "They", " may not look anywhere."];
        if (!allowed.length) return ["No token may look at ", one || "them", "."];
        const best = allowed.sort((first, second) => second.mean - first.mean).slice(0, 3);
        const [first, ...others] = best.map(({ mean, place }) => [name(shaded, place), `: ${this.say(mean)}`]);
        const whose = isAll ? "all" : `${places.length} pinned`;
        const opening = one
            ? [one, byRow ? " attends most to " : " gets most attention from "]
            : [`Mean of ${whose} tokens: most ${byRow ? "goes to" : "comes from"} `];
        const rest = others.flatMap((other, place) => [place ? " and " : ", then ", ...other]);
        const closed = means.length - allowed.length;
        const forbidden = byRow
            ? ` ${one ? "It" : "They"} may not look at ${count(closed, "token")}.`
            : ` ${count(closed, "token")} may not look at ${one ? "it" : "them"}.`;
        return [...opening, ...first, ...rest, ".", closed ? forbidden : ""];
    }

    // Return sentences about the weights between the pinned tokens and the one that is pointed at.
    pairs({ at }) {
        const isFrom = this.data.direction === "from";
        const own = isFrom ? this.queries : this.keys;
        const other = isFrom ? this.keys : this.queries;
        if (at.side !== other) return [];
        const shown = this.pins.filter((pin) => own !== other || pin !== at.place).slice(0, 3);
        return shown.map((pin) => {
            const [query, key] = isFrom ? [pin, at.place] : [at.place, pin];
            const weight = this.weight(query, key);
            const [from, to] = [name(this.queries, query), name(this.keys, key)];
            if (Number.isNaN(weight)) return [from, " may not look at ", to, "."];
            return [from, " attends to ", to, `: ${this.say(weight)}.`];
        });
    }

    say(weight) {
        if (this.data.percent) return percent(weight);
        return weight === 0 ? "0" : String(Number(weight.toPrecision(3)));
    }
}

function drawn(tag, attributes) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
    return element;
}
