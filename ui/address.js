// Keeps the address up to date with the page. When somebody goes back or forward in the history, Streamlit reruns the page,
// unless a field changes at that moment: then that address was never read, and has to be sent again.
const FRAME = ["embed", "embed_options"]; // Streamlit's own names, which stay
const ASK_AGAIN = 250; // milliseconds between two checks whether the page still runs
const TIMES = 4; // give up on an address that was sent this often and not read; other runs may come in between
const POPOVER = "[data-testid=stPopoverButton]";
const TELLING = "headlight-telling"; // while popovers are open out of sight
const frame = () => new Promise(requestAnimationFrame);
const { headlight } = window;
const used = new WeakSet(); // buttons of popovers that somebody has opened
let session, run, waiting, runAgain, isWatched;
let again = { address: null, times: 0 }; // the address that was sent again, and how often

const pairs = () => [...new URLSearchParams(window.location.search)];
const isFrame = ([name]) => FRAME.includes(name.toLowerCase());
const own = () => pairs().filter((pair) => !isFrame(pair));
const byName = ([one], [other]) => (one < other ? -1 : one > other ? 1 : 0);
// The order of names does not matter, but the order of words with the same name does.
const same = (one, other) => JSON.stringify([...one].sort(byName)) === JSON.stringify([...other].sort(byName));
const here = () => window.location.pathname + window.location.search;

export default function ({ data, setTriggerValue }) {
    runAgain = () => setTriggerValue("connected", true);
    if (!isWatched) watch();
    if (data.session === session && data.run === run) return;
    const base = headlight.base(data.page);
    const isRead = base !== null && same(own(), data.read);
    // A new session after a restart of the server, for a page that stayed open.
    if (data.session !== session && base !== null && !isRead) headlight.asked = here();
    [session, run] = [data.session, data.run];
    clearTimeout(waiting);
    if (isRead && headlight.asked !== null) tellPopovers();
    if (isRead || (headlight.asked === again.address && again.times >= TIMES)) headlight.asked = null;
    if (headlight.asked === null) again = { address: null, times: 0 };
    if (headlight.asked !== null) return askAgain();
    if (base === null || same(own(), data.says)) return;
    const query = new URLSearchParams([...data.says, ...pairs().filter(isFrame)]).toString();
    headlight.write(base + data.page + (query && `?${query}`), data.isNew);
}

// Send the address again once no run is active.
function askAgain() {
    if (document.querySelector("[data-testid=stApp]")?.dataset.testScriptState !== "notRunning") {
        waiting = setTimeout(askAgain, ASK_AGAIN);
        return;
    }
    again = { address: here(), times: again.address === here() ? again.times + 1 : 1 };
    window.dispatchEvent(new PopStateEvent("popstate"));
}

// Fields in a closed popover do not hear what an address asks for, and would send what they had before with the next click.
// So each popover that somebody has used is opened, out of sight, for as long as its fields take to hear it.
async function tellPopovers() {
    const { activeElement, documentElement: root } = document;
    root.classList.add(TELLING);
    for (const button of document.querySelectorAll(`${POPOVER}[aria-expanded=false]`)) {
        if (!used.has(button)) continue;
        button.click();
        await frame();
        await frame();
        if (button.getAttribute("aria-expanded") === "true") button.click();
    }
    activeElement?.focus?.({ preventScroll: true });
    root.classList.remove(TELLING);
}

function watch() {
    const unseen = new CSSStyleSheet();
    unseen.replaceSync(`.${TELLING} [data-testid=stPopoverBody] { visibility: hidden; }`);
    document.adoptedStyleSheets.push(unseen);
    const note = ({ target }) => {
        const button = target.closest?.(POPOVER);
        if (button) used.add(button);
    };
    document.addEventListener("click", note, true);
    watchConnection();
}

// Streamlit does not run a page whose connection comes back. After a restart of the server its first click would only begin a
// new session, so the page runs before, or once somebody looks at it.
function watchConnection() {
    const app = document.querySelector("[data-testid=stApp]");
    const look = () => {
        if (app.dataset.testConnectionState !== "CONNECTED") return;
        if (document.hidden) document.addEventListener("visibilitychange", look, { once: true });
        else runAgain();
    };
    new MutationObserver(look).observe(app, { attributeFilter: ["data-test-connection-state"] });
    isWatched = true;
}
