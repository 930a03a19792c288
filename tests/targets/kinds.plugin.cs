// What `kinds` loads into a context that can be unloaded: each object of it also holds the context.
namespace Loaded
{
    public class Thing
    {
        public object Reference = new Alone();
        public static object Held = new Alone();
    }

    public class Alone
    {
        public long Number;
    }
}
