// The address follows the page. Where somebody goes in the history Streamlit runs the page anew, unless something else is
// chosen at that moment: then that address was never read, and has to be asked for once more.
const FRAME = ["embed", "embed_options"]; // Streamlit's own names, which stay
const ASK_AGAIN = 250; // milliseconds between two looks at whether the page still runs
const TIMES = 4; // an address that was asked for so often and not read cannot be; runs for something else may come in between
const { headlight } = window;
let session, run, waiting;
let again = { address: null, times: 0 }; // what was asked for again

const pairs = () => [...new URLSearchParams(window.location.search)];
const isFrame = ([name]) => FRAME.includes(name.toLowerCase());
const own = () => pairs().filter((pair) => !isFrame(pair));
const byName = ([one], [other]) => (one < other ? -1 : one > other ? 1 : 0);
// The order of names means nothing, that of the words under one name does.
const same = (one, other) => JSON.stringify([...one].sort(byName)) === JSON.stringify([...other].sort(byName));
const here = () => window.location.pathname + window.location.search;

export default function ({ data }) {
    if (data.session === session && data.run === run) return;
    const base = headlight.base(data.page);
    const isRead = base !== null && same(own(), data.read);
    // A session that the server has begun anew, for a page that was open all the time.
    if (data.session !== session && base !== null && !isRead) headlight.asked = here();
    [session, run] = [data.session, data.run];
    clearTimeout(waiting);
    if (isRead || (headlight.asked === again.address && again.times >= TIMES)) headlight.asked = null;
    if (headlight.asked === null) again = { address: null, times: 0 };
    if (headlight.asked !== null) return askAgain();
    if (base === null || same(own(), data.says)) return;
    const query = new URLSearchParams([...data.says, ...pairs().filter(isFrame)]).toString();
    headlight.write(base + data.page + (query && `?${query}`), data.isNew);
}

// Once nothing runs any more.
function askAgain() {
    if (document.querySelector("[data-testid=stApp]")?.dataset.testScriptState !== "notRunning") {
        waiting = setTimeout(askAgain, ASK_AGAIN);
        return;
    }
    again = { address: here(), times: again.address === here() ? again.times + 1 : 1 };
    window.dispatchEvent(new PopStateEvent("popstate"));
}
