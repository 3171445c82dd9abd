// Streamlit reads the theme from here when a page is loaded, for each path by itself; nothing else of it can be told from a page.
const THEME = (path) => `stActiveTheme-${path}-v2`;
const OWN = "headlight-theme", KEPT = "headlight-talk";
const WORDS = { System: "Theme: as the system", Light: "Theme: light", Dark: "Theme: dark" };
const NEXT = { System: "Light", Light: "Dark", Dark: "System" };
const ICONS = {
    System: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 2v14a7 7 0 0 1 0-14z",
    Light: "M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM11 1h2v4h-2zM11 19h2v4h-2zM1 11h4v2H1zM19 11h4v2h-4z",
    Dark: "M20 15A9 9 0 0 1 9 4a9 9 0 1 0 11 11z",
};
let gone = 0; // the last view that was gone to

export default function ({ parentElement, data, setTriggerValue }) {
    const here = window.location.pathname;
    const base = here.endsWith(`/${data.page}`) ? here.slice(0, here.length - data.page.length) : "/";
    const store = window.localStorage;
    const button = parentElement.querySelector(".theme");
    const theme = WORDS[store.getItem(OWN)] ? store.getItem(OWN) : "System";
    button.title = `${WORDS[theme]}; press for ${NEXT[theme].toLowerCase()}`;
    button.setAttribute("aria-label", button.title);
    if (button.dataset.theme !== theme) {
        const drawn = document.createElementNS("http://www.w3.org/2000/svg", "svg");
        const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
        drawn.setAttribute("viewBox", "0 0 24 24");
        drawn.setAttribute("aria-hidden", "true");
        path.setAttribute("d", ICONS[theme]);
        drawn.append(path);
        button.replaceChildren(drawn);
        button.dataset.theme = theme;
    }
    button.onclick = () => {
        const next = NEXT[theme];
        store.setItem(OWN, next);
        for (const path of data.paths) store.setItem(THEME(base + path), JSON.stringify(next));
        window.location.reload(); // what the page shows is in its address
    };
    if (data.kept === null) {
        const kept = store.getItem(KEPT);
        if (kept) setTriggerValue("found", kept);
    } else if (store.getItem(KEPT) !== data.kept) {
        store.setItem(KEPT, data.kept);
    }
    if (data.going && data.going[0] !== gone) {
        gone = data.going[0];
        window.history.pushState(null, "", base + data.going[1]);
        window.dispatchEvent(new PopStateEvent("popstate"));
    }
}
