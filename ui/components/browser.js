// Streamlit reads the theme of each path from this key when a page loads; a page cannot set it in any other way.
const THEME = (path) => `stActiveTheme-${path}-v2`;
const OWN = "headlight-theme", KEPT = "headlight-talk";
const WORDS = { System: "Theme: system", Light: "Theme: light", Dark: "Theme: dark" };
const NEXT = { System: "Light", Light: "Dark", Dark: "System" };
let gone = 0; // the number of the last view that the browser went to
let known; // the talk that this window has stored or sent to the page
let session; // the session that it was sent to
let told; // the number of the session's talk when another talk was sent to it
let latest; // the data that the page sent last
let refused; // the talk that could not be stored
let waiting; // for the page to take in the talk that was sent to it
const PATIENCE = 1500; // milliseconds until it is sent again: a message is lost if the page changes just then

export default function ({ parentElement, data, setTriggerValue }) {
    const base = window.headlight.base(data.page) ?? "/";
    const store = window.localStorage;
    const button = parentElement.querySelector(".theme");
    const theme = WORDS[store.getItem(OWN)] ? store.getItem(OWN) : "System";
    button.title = `${WORDS[theme]}. Press to change to ${NEXT[theme].toLowerCase()}.`;
    button.setAttribute("aria-label", button.title);
    for (const icon of button.children) icon.toggleAttribute("hidden", icon.dataset.theme !== theme);
    button.onclick = () => {
        const next = NEXT[theme];
        store.setItem(OWN, next);
        for (const path of data.paths) store.setItem(THEME(base + path), JSON.stringify(next));
        window.location.reload(); // the address holds what the page shows
    };
    if (data.session !== session) [session, known, told] = [data.session, undefined, undefined];
    latest = { data, setTriggerValue };
    keep();
    if (data.going && data.going[0] !== gone) {
        gone = data.going[0];
        const [, link, instead] = data.going;
        const there = new URL(base + link, window.location.origin);
        for (const [name, word] of new URLSearchParams(window.location.search)) {
            if (/^embed(_options)?$/i.test(name)) there.searchParams.append(name, word);
        }
        window.headlight.go(there, instead);
    }
}

// The talk is stored for all windows: a talk that this window has neither stored nor sent comes from another window.
function keep() {
    const { data: { hasTalk, keep, talkNumber }, setTriggerValue } = latest;
    const store = window.localStorage, kept = store.getItem(KEPT);
    const field = document.hasFocus() && document.activeElement;
    const isTyping = field && field.matches("input, textarea") && field.value !== "";
    if (told === talkNumber) return; // the session has not yet received the stored talk
    if (kept !== null && kept !== known && kept !== keep?.text) {
        if (hasTalk && !keep && isTyping) return; // wait: text that is being typed would be lost
        const base = known;
        setTriggerValue("found", { text: kept, base: base ?? null });
        [known, told] = [kept, talkNumber];
        clearTimeout(waiting);
        waiting = setTimeout(() => sendAgain(base), PATIENCE);
    } else if (keep && keep.name !== refused) {
        try {
            store.setItem(KEPT, keep.text);
            known = keep.text;
            setTriggerValue("kept", keep.name);
        } catch (error) {
            refused = keep.name;
            setTriggerValue("lost", String(error.message));
        }
    }
}

function sendAgain(base) {
    if (told !== latest.data.talkNumber) return; // it has been taken in
    if (document.querySelector("[data-testid=stApp]")?.dataset.testScriptState !== "notRunning") {
        waiting = setTimeout(() => sendAgain(base), PATIENCE);
        return;
    }
    [known, told] = [base, undefined];
    keep();
}

window.addEventListener("storage", (event) => { if (latest && event.key === KEPT) keep(); }); // by another window
