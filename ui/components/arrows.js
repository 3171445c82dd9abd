const GLIDE = matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth";
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
let isOnPicture = false; // whether the mouse was pressed on the picture: the page may be redrawn before it is released
let stop = null; // ends the previous call, which may be cleaned up long after the next one has begun, and would take its click
export default function ({ parentElement, data, setTriggerValue }) {
    const keys = parentElement.querySelector(".keys");
    keys.textContent = data.text;
    keys.setAttribute("aria-label", data.label);
    // Keys are pressed faster than the page runs, and it gets only the last of several. So the walk is kept here, and the
    // page's data counts only once it has seen the last press.
    const walk = (keys.walk ??= {});
    if (walk.session !== data.session) Object.assign(walk, { session: data.session, presses: data.presses });
    if (walk.presses <= data.presses) Object.assign(walk, { place: data.place, presses: data.presses });
    if (data.line && keys.share !== data.line.share) {
        const box = document.querySelector(data.line.box);
        const left = box && data.line.share * box.scrollWidth - box.clientWidth / 2;
        if (box && keys.share !== undefined) box.scrollTo({ left, behavior: GLIDE }); // not the first time: it opens at its left end
        keys.share = data.line.share;
    }
    keys.onkeydown = (event) => { // replaces the listener: an earlier call may be cleaned up after a later one
        const step = STEPS[event.key];
        if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        walk.place = walk.place.map((at, axis) => Math.max(0, Math.min(at + step[axis], data.shape[axis] - 1)));
        walk.presses += 1;
        setTriggerValue("step", { place: walk.place, presses: walk.presses });
    };
    // A click on the picture gives the focus to the keys. (Plotly covers the page while the mouse is pressed.)
    const down = (event) => { isOnPicture = Boolean(event.target.closest?.(data.picture)); };
    const up = () => {
        if (isOnPicture) keys.focus({ preventScroll: true });
        isOnPicture = false;
    };
    stop?.();
    const listening = new AbortController();
    document.addEventListener("pointerdown", down, { capture: true, signal: listening.signal });
    document.addEventListener("pointerup", up, { capture: true, signal: listening.signal });
    stop = () => listening.abort();
    return stop;
}
