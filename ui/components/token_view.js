// The text view of core/figures/text on a page, which learns of clicked tokens.

const views = new WeakMap();

export default function ({ parentElement, data, setTriggerValue }) {
    if (!views.has(parentElement)) views.set(parentElement, { view: new TextView(parentElement), clicks: new Clicks() });
    const { view, clicks } = views.get(parentElement);
    clicks.read(data.seen);
    const tell = (position) => setTriggerValue("clicks", clicks.add(position));
    const call = view.update({ ...data, weights: numbers(data.weights) }, tell);
    // An earlier call can be cleaned up after a later one has begun to use the same view.
    return () => {
        if (view.calls !== call) return;
        view.root.remove();
        views.delete(parentElement);
    };
}
