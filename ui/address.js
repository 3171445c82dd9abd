// The address follows the page. Where somebody goes in the history Streamlit runs the page anew, unless something else is
// chosen at that moment: then that address was never read, and has to be asked for once more.
const FRAME = ["embed", "embed_options"]; // Streamlit's own names, which stay
const ASK_AGAIN = 250; // milliseconds between two looks at whether the page still runs
let asked = null; // the address that somebody went to, until a run has read it
let session, run, waiting, askedTwice;

const pairs = () => [...new URLSearchParams(window.location.search)];
const own = (all) => all.filter(([name]) => !FRAME.includes(name.toLowerCase()));
// The order of names means nothing, that of the words under one name does.
const same = (one, other) =>
    JSON.stringify([...one].sort(byName)) === JSON.stringify([...other].sort(byName));
const byName = ([one], [other]) => (one < other ? -1 : one > other ? 1 : 0);
const here = () => ({ path: window.location.pathname, says: own(pairs()) });

window.addEventListener("popstate", () => { asked = here(); });

export default function ({ data }) {
    if (data.session === session && data.run === run) return;
    const path = data.page ? window.location.pathname.replace(/\/+$/, "") : window.location.pathname;
    if (!path.endsWith(`/${data.page}`)) return; // on the way to another page
    // A session that the server has begun anew, for a page that was open all the time.
    if (data.session !== session && !same(data.read, here().says)) asked = here();
    [session, run] = [data.session, data.run];
    clearTimeout(waiting);
    if (asked && asked.path === window.location.pathname && same(asked.says, data.read)) asked = askedTwice = null;
    if (asked && JSON.stringify(asked) === askedTwice) asked = null; // there is no reading it
    if (asked) return askAgain();
    if (same(own(pairs()), data.says)) return;
    const frame = pairs().filter(([name]) => FRAME.includes(name.toLowerCase()));
    const query = new URLSearchParams([...data.says, ...frame]).toString();
    const how = data.isNew ? "pushState" : "replaceState";
    window.history[how](null, "", path + (query && `?${query}`));
}

// Once nothing runs any more, and if nobody has gone elsewhere meanwhile.
function askAgain() {
    const app = document.querySelector("[data-testid=stApp]");
    const isThere = asked && asked.path === window.location.pathname && same(asked.says, here().says);
    if (!isThere) return;
    if (app && app.dataset.testScriptState !== "notRunning") {
        waiting = setTimeout(askAgain, ASK_AGAIN);
        return;
    }
    askedTwice = JSON.stringify(asked);
    window.dispatchEvent(new PopStateEvent("popstate"));
}
