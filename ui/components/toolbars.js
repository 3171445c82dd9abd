// Buttons that stand in one line are one stop of the Tab key, and arrow keys move along them: the toolbar of WAI-ARIA.
const TOOLBARS = { ".st-key-actions": "This page", ".st-key-findings": "Heads that stand out" };
const CAN_BE_FOCUSED = "button:not(:disabled), input, a[href]";

// Return what can be focused in a part of the page, also in components.
const stops = (part) => [...part.querySelectorAll("*")].flatMap((element) => {
    if (element.shadowRoot) return stops(element.shadowRoot);
    return element.matches(CAN_BE_FOCUSED) && element.checkVisibility() ? [element] : [];
});

function markToolbars() {
    for (const [selector, label] of Object.entries(TOOLBARS)) {
        const bar = document.querySelector(selector);
        const items = bar ? stops(bar) : [];
        if (items.length < 2) continue;
        bar.setAttribute("role", "toolbar");
        bar.setAttribute("aria-label", label);
        const open = items.find((item) => item === bar.stop) ?? items[0];
        for (const item of items) item.tabIndex = item === open ? 0 : -1;
    }
}

// After all others: while a page is about to be presented, and in a tour, arrow keys mean something else.
window.addEventListener("keydown", (event) => {
    const bar = event.target.closest?.("[role=toolbar]");
    if (!bar || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const items = stops(bar), at = items.indexOf(event.composedPath()[0]);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: items.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    bar.stop = items.at(to % items.length);
    markToolbars();
    bar.stop.focus();
});
