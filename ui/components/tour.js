// The card stands beside its subject, which has a ring around it: both follow it while the page scrolls or changes.

const GLIDE = matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth";
const GAP = 12; // pixels between the card, its subject and the edges of the window
const RING = 4; // pixels between a subject and its ring
let stop = null; // ends the previous call, which may be cleaned up long after the next one has begun

export default function ({ parentElement, data, setTriggerValue }) {
    const card = parentElement.querySelector(".card");
    const [ring, words, place, back, next, leave] = ["ring", "words", "place", "back", "next", "leave"].map(
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
    const go = (to) => {
        walk.stop = to;
        walk.presses += 1;
        setTriggerValue("go", { stop: to, presses: walk.presses });
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

    const stand = () => {
        const subject = document.querySelector(data.subject);
        if (subject && card.reached !== data.stop) {
            card.reached = data.stop;
            reveal(card, subject);
        }
        ring.hidden = !subject;
        const box = subject?.getBoundingClientRect();
        if (box) Object.assign(ring.style, pixels(around(box)));
        Object.assign(card.style, pixels(box ? placeBeside(card, box) : { left: GAP, top: lowest(card) }));
    };
    stop?.();
    let waiting = 0;
    const soon = () => {
        cancelAnimationFrame(waiting);
        waiting = requestAnimationFrame(stand);
    };
    const changes = new MutationObserver(soon);
    changes.observe(document.body, { childList: true, subtree: true });
    const sizes = new ResizeObserver(soon);
    for (const page of document.querySelectorAll(".stMainBlockContainer")) sizes.observe(page);
    const listening = new AbortController();
    document.addEventListener("keydown", press, { signal: listening.signal });
    window.addEventListener("scroll", soon, { capture: true, signal: listening.signal });
    window.addEventListener("resize", soon, { signal: listening.signal });
    if (card.shown !== data.stop) {
        card.shown = data.stop;
        card.focus({ preventScroll: true });
    }
    stand();
    stop = () => {
        listening.abort();
        changes.disconnect();
        sizes.disconnect();
        cancelAnimationFrame(waiting);
    };
    return stop;
}

const pixels = (box) => Object.fromEntries(Object.entries(box).map(([side, length]) => [side, `${length}px`]));

const around = ({ left, top, width, height }) => (
    { left: left - RING, top: top - RING, width: width + 2 * RING, height: height + 2 * RING }
);

const lowest = (card) => innerHeight - GAP - card.offsetHeight;

const header = () => document.querySelector(".stAppHeader")?.getBoundingClientRect().bottom ?? 0;

// Return how far to the left the card stands beside its subject; undefined if the subject is low or leaves no room for it.
function besideOf(card, box) {
    if (box.height < card.offsetHeight) return undefined;
    const room = card.offsetWidth + 2 * GAP;
    if (box.right + room <= innerWidth) return box.right + GAP;
    return box.left >= room ? box.left - GAP - card.offsetWidth : undefined;
}

// Return where the card stands: beside its subject, else above it, else below it, and in any case within the window.
function placeBeside(card, box) {
    const within = (top) => Math.min(Math.max(top, header() + GAP), lowest(card));
    const left = besideOf(card, box);
    if (left !== undefined) return { left, top: within(box.top) };
    const above = box.top - GAP - card.offsetHeight;
    const middle = box.left + (box.width - card.offsetWidth) / 2;
    return {
        left: Math.min(Math.max(middle, GAP), innerWidth - GAP - card.offsetWidth),
        top: within(above < header() ? box.bottom + GAP : above),
    };
}

// Scroll so far that the subject is in the window, with room above it for the card if the card cannot stand beside it.
function reveal(card, subject) {
    const box = subject.getBoundingClientRect();
    const isBeside = besideOf(card, box) !== undefined;
    const highest = header() + GAP + (isBeside ? 0 : card.offsetHeight + GAP);
    const isBelow = Math.max(0, box.bottom + GAP - innerHeight);
    const top = box.top < highest ? box.top - highest : Math.min(box.top - highest, isBelow);
    subject.closest("[data-testid=stMain]")?.scrollBy({ top, behavior: GLIDE });
}
