// What has to be there before Streamlit is: who goes where in the history, and keys that are pressed while a page loads.
window.headlight = (() => {
    const push = window.history.pushState.bind(window.history);
    const keys = [];
    const press = (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        keys.push(event.key.length === 1 ? event.key.toLowerCase() : event.key);
    };
    const headlight = {
        asked: null, // the path and query that somebody went to in the history, until the page has read it: see address.js

        // The path below which all pages are, where the browser is on this one; null where it is on its way to another.
        base(page) {
            const path = page ? window.location.pathname.replace(/\/+$/, "") : window.location.pathname;
            return path.endsWith(`/${page}`) ? path.slice(0, path.length - page.length) : null;
        },

        // As the browser's own "back" does: within the session, and nothing is loaded anew.
        go(address, instead = false) {
            if (instead) window.history.replaceState(null, "", address);
            else push(null, "", address);
            window.dispatchEvent(new PopStateEvent("popstate"));
        },

        // What is shown now has this address.
        write(address, isNew) {
            if (isNew) push(null, "", address);
            else window.history.replaceState(null, "", address);
        },

        // Those that were pressed on a page that is presented.
        takeKeys() {
            window.removeEventListener("keydown", press);
            return keys.splice(0);
        },
    };
    if (new URLSearchParams(window.location.search).get("present") === "true") window.addEventListener("keydown", press);
    window.addEventListener("popstate", () => {
        headlight.asked = window.location.pathname + window.location.search;
    });
    // Whoever follows a link wants no other address any more.
    const follow = (event) => {
        if (event.target.closest?.("a")) headlight.asked = null;
    };
    window.addEventListener("click", follow, true);
    // Streamlit writes the address of a page once its run begins. Whoever has left it meanwhile does not come back for that.
    window.history.pushState = (...entry) => {
        if (headlight.asked === null) push(...entry);
    };
    return headlight;
})();
