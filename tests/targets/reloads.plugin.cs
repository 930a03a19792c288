// What reloads.cs loads.
namespace Plugin
{
    public sealed class Item { public long Value; public Pair<Item> Others; }

    public sealed class Pair<T> { public T First; public T Second; }

    public static class Maker
    {
        static long made;

        public static object Make()
        {
            made++;
            return new Item { Value = made, Others = new Pair<Item>() };
        }
    }
}
