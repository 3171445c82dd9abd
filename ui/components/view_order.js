// The views of a talk as small pictures. They are moved faster than the page runs, and it gets only the last of several moves. So
// their order is kept here, each message holds all of it, and the page's counts only once it has seen the last move.
const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };
const NOTHING = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="; // of a view that was not drawn here yet
let dragged = null; // the item of a view while it is dragged

export default function ({ parentElement, data, setTriggerValue }) {
    const list = parentElement.querySelector("ol"), item = parentElement.querySelector("template").content.firstElementChild;
    const walk = (list.walk ??= {});
    if (walk.session !== data.session) Object.assign(walk, { session: data.session, presses: data.presses });
    if (!dragged && walk.presses <= data.presses) {
        const pictures = picturesKept();
        if (list.children.length !== data.views.length) list.replaceChildren(...data.views.map(() => item.cloneNode(true)));
        data.views.forEach(({ mark, title, link, picture }, at) => {
            const shown = list.children[at];
            shown.dataset.mark = mark;
            shown.querySelector(".title").textContent = title;
            shown.querySelector("img").src = pictures[link] ?? picture ?? NOTHING;
            shown.classList.toggle("blank", !(pictures[link] ?? picture));
        });
    }
    const tell = () => {
        walk.presses += 1;
        setTriggerValue("order", { marks: [...list.children].map(({ dataset }) => dataset.mark), presses: walk.presses });
    };
    const move = (shown, by) => {
        const other = by < 0 ? shown.previousElementSibling : shown.nextElementSibling, { activeElement } = list.getRootNode();
        other?.[by < 0 ? "before" : "after"](shown);
        activeElement?.focus(); // what is moved loses it
        if (other) tell();
    };
    list.onkeydown = (event) => {
        if (!STEPS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        move(event.target.closest("li"), STEPS[event.key]);
    };
    list.onclick = ({ target }) => {
        if (target.matches("button")) move(target.closest("li"), target.className === "later" ? 1 : -1);
    };
    list.ondragstart = ({ target }) => { dragged = target.closest?.("li") ?? null; };
    list.ondragover = (event) => {
        if (!dragged) return; // a file, or a text
        const over = event.target.closest("li"), isBefore = over?.compareDocumentPosition(dragged) & Node.DOCUMENT_POSITION_FOLLOWING;
        event.preventDefault();
        dragged.classList.add("dragged");
        if (over && over !== dragged) over[isBefore ? "before" : "after"](dragged);
    };
    list.ondragend = () => {
        dragged?.classList.remove("dragged");
        dragged = null;
        tell();
    };
}
