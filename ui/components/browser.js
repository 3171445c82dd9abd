// Streamlit reads the theme of each path from this key when a page loads; a page cannot set it in any other way.
const THEME = (path) => `stActiveTheme-${path}-v2`;
const OWN = "headlight-theme", KEPT = "headlight-talk";
const WORDS = { System: "Theme: system", Light: "Theme: light", Dark: "Theme: dark" };
const NEXT = { System: "Light", Light: "Dark", Dark: "System" };
let gone = 0; // the number of the last view that the browser went to
let known; // the talk that this window has stored, or that its session has taken in
let session; // that session
let found; // another stored talk, which was sent to the session and is not yet taken in, with its number
let number = 0; // of the last one that was sent
let latest; // the data that the page sent last
let refused; // the talk that could not be stored
let waiting; // for the session to hear what was sent to it
let drawn; // a small picture of the view that somebody has just added, once it is drawn
const PATIENCE = 1500; // milliseconds until a message is sent again: it is lost if the page changes just then

export default function ({ parentElement, data, setTriggerValue }) {
    const base = window.headlight.base(data.page) ?? "/";
    const store = storage();
    const button = parentElement.querySelector(".theme");
    const theme = WORDS[store?.getItem(OWN)] ? store.getItem(OWN) : "System";
    button.title = `${WORDS[theme]}. Press to change to ${NEXT[theme].toLowerCase()}.`;
    button.setAttribute("aria-label", button.title);
    for (const icon of button.children) icon.toggleAttribute("hidden", icon.dataset.theme !== theme);
    button.onclick = () => {
        const next = NEXT[theme];
        store.setItem(OWN, next);
        for (const path of data.paths) store.setItem(THEME(base + path), JSON.stringify(next));
        window.location.reload(); // the address holds what the page shows
    };
    if (data.session !== session) [session, known, found] = [data.session, undefined, undefined];
    latest = { data, setTriggerValue };
    keep();
    if (data.added !== null) drawn?.then((picture) => keepPicture(data.added, picture));
    if (data.going && data.going[0] !== gone) {
        gone = data.going[0];
        const [, link, instead] = data.going;
        const there = new URL(base + link, window.location.origin);
        for (const [name, word] of new URLSearchParams(window.location.search)) {
            if (/^embed(_options)?$/i.test(name)) there.searchParams.append(name, word);
        }
        window.headlight.go(there, instead);
        arrive();
    }
}

// Ask for the page again until a run has begun it: a message is lost if a field changes just then.
function arrive() {
    setTimeout(() => {
        if (window.headlight.base(latest.data.page) !== null) return;
        if (!isRunning()) window.dispatchEvent(new PopStateEvent("popstate"));
        arrive();
    }, PATIENCE);
}

function isRunning() {
    return document.querySelector("[data-testid=stApp]")?.dataset.testScriptState !== "notRunning";
}

// Some browsers keep nothing for a site, or not in a frame.
function storage() {
    try {
        return window.localStorage;
    } catch {
        return null;
    }
}

// The talk is stored for all windows: one that this window has neither stored nor got confirmed comes from another window, or
// from before a reload. It is sent to the session, and nothing takes its place before the session has taken it in.
function keep() {
    const { data: { hasTalk, keep, taken, asks }, setTriggerValue } = latest;
    const store = storage(), kept = store?.getItem(KEPT) ?? null;
    const field = document.hasFocus() && document.activeElement;
    const isTyping = field && field.matches("input, textarea") && field.value !== "";
    if (found && taken === found.number) [known, found] = [found.text, undefined];
    if (found) return;
    if (kept !== null && kept !== known && kept !== keep?.text) {
        if (hasTalk && !keep && isTyping) return; // wait: text that is being typed would be lost
        found = { text: kept, base: known ?? null, number: ++number };
        send("found", found, () => found);
    } else if (keep && keep.name !== refused) {
        try {
            try {
                window.localStorage.setItem(KEPT, keep.text);
            } catch {
                window.localStorage.removeItem(PICTURES); // the talk needs their room
                window.localStorage.setItem(KEPT, keep.text); // its error says why
            }
            known = keep.text;
            setTriggerValue("kept", keep.name);
        } catch (error) {
            refused = keep.name;
            setTriggerValue("lost", String(error.message));
        }
    } else if (asks) {
        send("nothing", session, () => latest.data.asks);
    }
}

// Send a value, again and again while it is still to be heard.
function send(name, value, isDue) {
    latest.setTriggerValue(name, value);
    clearTimeout(waiting);
    waiting = setTimeout(again, PATIENCE);
    function again() {
        if (isDue() && isRunning()) waiting = setTimeout(again, PATIENCE);
        else if (isDue()) send(name, value, isDue);
    }
}

document.addEventListener("click", (event) => { if (event.target.closest?.(latest?.data.adds)) drawn = smallPicture(); }, true);
window.addEventListener("storage", (event) => { if (latest && event.key === KEPT) keep(); }); // by another window
