// A text that one of its tokens looks at. Pointing at a token, with the mouse or the keyboard, says what it gets.

const FAINTEST = 0.005; // of the weights that are named after the largest one

export default function ({ parentElement, data }) {
    const said = JSON.stringify(data);
    const view = (parentElement.view ??= parentElement.appendChild(make("div", "view")));
    const colours = shades(view);
    // The same text in the same colours is not redrawn, so that the token that is pointed at stays.
    if (view.said === said && view.line === colours.line && view.strongest === colours.at(1)) return;
    Object.assign(view, { said, line: colours.line, strongest: colours.at(1) });
    if (data.tokens === null) return view.replaceChildren(legend(data.limit, colours));

    const weights = numbers(data.weights);
    const text = side(data.tokens, "Text; the query token is framed", false);
    const from = name(text, data.query);
    const note = make("p", "note");
    note.setAttribute("aria-live", "polite");
    const tell = (token) => {
        const place = text.tokens.indexOf(token);
        const words =
            place < 0
                ? strongest(weights, text, data.query, data.says[1])
                : [` ${data.says[0]} `, place === data.query ? "itself" : name(text, place), `: ${percent(weights[place])}.`];
        note.replaceChildren(from.cloneNode(true), ...words);
    };
    text.tokens.forEach((token, place) => {
        const share = data.limit > 0 ? Math.min(weights[place] / data.limit, 1) : 0;
        token.style.backgroundColor = share > 0 ? colours.at(share) : "";
        token.classList.toggle("pinned", place === data.query);
        token.setAttribute("aria-selected", place === data.query);
        token.title = percent(weights[place]);
        const parts = [text.text[place], `position ${text.start + place}`, token.title];
        if (place === data.query) parts.push("query");
        token.setAttribute("aria-label", parts.join(", "));
        token.tabIndex = place === data.query ? 0 : -1;
    });
    const tokenOf = (event) => event.target.closest(".token");
    text.list.onpointerover = (event) => tokenOf(event) && tell(tokenOf(event));
    text.list.onpointerleave = () => tell(null);
    text.list.onfocusout = () => tell(null);
    text.list.onfocusin = (event) => tokenOf(event)?.matches(":focus-visible") && tell(tokenOf(event));
    text.list.onkeydown = (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const next = stepped(event.key, text.tokens, text.tokens.indexOf(tokenOf(event)));
        if (!next) return;
        focusOn(next);
        event.preventDefault();
        event.stopPropagation(); // the grid of heads listens to the same keys
    };
    tell(null);
    view.replaceChildren(text.list, note);
}

// "“it” (10) attends most to “animal” (2): 41.3%, then itself: 20.1%." without its beginning.
function strongest(weights, text, query, says) {
    const falling = [...weights.keys()].sort((one, other) => weights[other] - weights[one]);
    const best = falling.slice(0, 3).filter((place, at) => at === 0 || weights[place] >= FAINTEST);
    const words = best.map((place) => [place === query ? "itself" : name(text, place), `: ${percent(weights[place])}`]);
    const joins = ["", ", then ", " and "];
    return [` ${says} `, ...words.flatMap((parts, at) => [joins[at], ...parts]), "."];
}

function legend(limit, colours) {
    const bar = make("span", "bar");
    bar.style.background = `linear-gradient(to right, transparent, ${colours.at(1)})`;
    return make("div", "legend", [
        make("span", "", ["Shade: 0", bar, percent(limit)]),
        make("span", "", [make("span", "sample pinned", ["frame"]), "query token"]),
    ]);
}
