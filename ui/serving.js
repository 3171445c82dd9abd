// Functions that are needed before Streamlit has loaded: for the browser's history, and for keys pressed while a page loads.
window.headlight = (() => {
    const push = window.history.pushState.bind(window.history);
    const keys = [];
    const press = (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        keys.push(event.key.length === 1 ? event.key.toLowerCase() : event.key);
    };
    const headlight = {
        asked: null, // the path and query that somebody went to in the history, until the page has read it: see address.js

        // Tell Streamlit that its server is one level above this page. Hosts that know better have set the object before.
        findServer() {
            const page = window.location.pathname.replace(/\/+$/, "");
            window.__streamlit ??= { BACKEND_BASE_URL: new URL(".", window.location.origin + page).href };
        },

        // Return the path below which all pages are; null if the browser is on its way to another page than this one.
        base(page) {
            const path = page ? window.location.pathname.replace(/\/+$/, "") : window.location.pathname;
            return path.endsWith(`/${page}`) ? path.slice(0, path.length - page.length) : null;
        },

        // Go to an address as the browser's own "back" does: within the session, without loading the page again. Streamlit
        // sends what a component triggers only once the task has ended. So this waits for a task of its own: a message that is
        // sent after the address would make the server run the page that was left.
        go(address, instead = false) {
            setTimeout(() => {
                if (instead) window.history.replaceState(null, "", address);
                else push(null, "", address);
                window.dispatchEvent(new PopStateEvent("popstate"));
            });
        },

        // Set the address of what is shown now.
        write(address, isNew) {
            if (isNew) push(null, "", address);
            else window.history.replaceState(null, "", address);
        },

        // Return the keys that were pressed while a presented page was loading.
        takeKeys() {
            window.removeEventListener("keydown", press);
            return keys.splice(0);
        },
    };
    if (new URLSearchParams(window.location.search).get("present") === "true") window.addEventListener("keydown", press);
    window.addEventListener("popstate", () => {
        headlight.asked = window.location.pathname + window.location.search;
    });
    // A click on a link replaces any address that was asked for before.
    const follow = (event) => {
        if (event.target.closest?.("a")) headlight.asked = null;
    };
    window.addEventListener("click", follow, true);
    // Streamlit writes the address of a page when its run begins. This must not bring back somebody who has left the page.
    window.history.pushState = (...entry) => {
        if (headlight.asked === null) push(...entry);
    };
    // Where a part of a page is still to come, Streamlit draws a bar that pulses. While a page opens there are a dozen, and the
    // browser draws all of them sixty times a second: a quarter of its work until the first picture, and more where it is busy.
    const still = new CSSStyleSheet();
    still.replaceSync("[data-testid=stSkeleton], [data-testid=stSkeleton] * { animation: none !important; }");
    document.adoptedStyleSheets.push(still);
    return headlight;
})();
