const GLIDE = matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth";
export default function ({ parentElement, data, setTriggerValue }) {
    const card = parentElement.querySelector(".card");
    const [words, place, back, next, leave] = ["words", "place", "back", "next", "leave"].map(
        (name) => parentElement.querySelector(`.${name}`),
    );
    words.textContent = data.words;
    place.textContent = `${data.stop + 1} of ${data.count}`;
    next.textContent = data.stop + 1 < data.count ? "Next →" : "Done";
    back.disabled = data.stop === 0;
    // Keys are pressed faster than the page runs, and it gets only the last of several. So the current stop is kept here.
    const walk = (card.walk ??= {});
    if (walk.session !== data.session) Object.assign(walk, { session: data.session, presses: data.presses });
    if (walk.presses <= data.presses) Object.assign(walk, { stop: data.stop, presses: data.presses });
    const go = (stop) => {
        walk.stop = stop;
        walk.presses += 1;
        setTriggerValue("go", { stop, presses: walk.presses });
    };
    const forward = () => go(walk.stop + 1);
    const backward = () => { if (walk.stop > 0) go(walk.stop - 1); };
    const end = () => go(null);
    next.onclick = forward;
    back.onclick = backward;
    leave.onclick = end;
    const press = (event) => {
        if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
        const at = event.composedPath()[0];
        if (at.matches?.("input, textarea, select, [contenteditable=true], [role=radio]")) return;
        const act = { ArrowRight: forward, ArrowLeft: backward, Escape: end }[event.key];
        if (!act) return;
        event.preventDefault();
        act();
    };
    document.addEventListener("keydown", press);
    // Scroll a new stop into sight, and give the focus to the card.
    if (card.shown !== data.stop) {
        card.shown = data.stop;
        card.focus({ preventScroll: true });
        document.querySelector(data.scroll)?.scrollIntoView({ block: "start", behavior: GLIDE });
    }
    return () => document.removeEventListener("keydown", press);
}
